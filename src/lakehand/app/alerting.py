# SPDX-License-Identifier: Apache-2.0
"""Builds what alerts need: receivers, pools, the service and the two loops."""

from collections.abc import Callable, Mapping

from lakehand.app.home import free_share
from lakehand.app.receivers import open_receivers
from lakehand.app.settings import Settings
from lakehand.core.loops.alert_sender import AlertSender, Receiver
from lakehand.core.loops.alerts import AlertMonitor
from lakehand.core.plugins.pools import WorkerPools
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Metrics, PluginReport, Store
from lakehand.core.services.alerts import AlertService
from lakehand.domain.operations import InstanceId
from lakehand.spi.engines import EngineHealth

THREADS = 4  # for one receiver
SEND_TIMEOUT = 30.0  # seconds for one message; far less than its lease


class Alerting:
    def __init__(
        self, settings: Settings, store: Store, metrics: Metrics, holder: InstanceId, wake: Callable[[], None]
    ) -> None:
        self.settings, self.store, self.metrics, self.holder, self.wake = settings, store, metrics, holder, wake
        self.receivers = open_receivers(settings.alerts.receivers)
        metrics.receivers(self.receivers)
        self.pools = WorkerPools(purpose="alert", size=THREADS, timeout=SEND_TIMEOUT)
        self.test_pools = WorkerPools(purpose="alert-test", size=THREADS, timeout=SEND_TIMEOUT)
        self.service = AlertService(store=store, receivers=self.receivers, pools=self.test_pools)
        self.sender = AlertSender(
            store=store, metrics=metrics, receivers=self.receivers, pools=self.pools, holder=holder, wake=wake
        )

    def build_monitor(self, plugins: Plugins, engines: Callable[[], Mapping[str, EngineHealth]]) -> AlertMonitor:
        return AlertMonitor(
            store=self.store, metrics=self.metrics, holder=self.holder, rules=self.settings.alerts.rules(),
            limits=self.settings.alerts.limits(), engines=engines,
            plugins=lambda: [*plugins.listing(), *self.reports()],
            free_disk=lambda: free_share(self.settings.home), wake=self.wake,
        )  # fmt: skip

    def reports(self) -> list[PluginReport]:
        """Each receiver as a plugin: the alert about one that is stuck goes to the others."""
        return [report_of(one) for one in self.receivers.values()]

    def close(self) -> None:
        """After the pools: what was not sent is sent after the next start."""
        for receiver in self.receivers.values():
            if receiver.alerter is not None:
                receiver.alerter.close()


def report_of(receiver: Receiver) -> PluginReport:
    state, why = receiver.breaker.state()
    return PluginReport(
        kind="alerter", name=receiver.name, distribution="", version="",
        state="broken" if receiver.alerter is None else state, reason=receiver.problem or receiver.hidden(why),
    )  # fmt: skip
