# SPDX-License-Identifier: Apache-2.0
"""Builds what alerts need: receivers, pools, the service and the two loops. A broken receiver stops no other."""

import logging
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from lakehand.app.home import free_share
from lakehand.app.setting_groups import ReceiverSettings
from lakehand.app.settings import Settings
from lakehand.core.loops.alert_sender import AlertSender, Receiver
from lakehand.core.loops.alerts import AlertMonitor
from lakehand.core.plugins.pools import WorkerPools
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Metrics, PluginReport, Store
from lakehand.core.services.alerts import AlertService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.errors import Invalid, PluginBroken
from lakehand.domain.operations import InstanceId
from lakehand.spi.alerters import Alerter
from lakehand.spi.engines import EngineHealth

log = logging.getLogger(__name__)
GROUP = "lakehand.alerters"
OPEN_TIMEOUT = 30.0  # seconds to import and open an alerter
THREADS = 4  # for one receiver
SEND_TIMEOUT = 30.0  # seconds for one message; far less than its lease


def open_receivers(settings: Mapping[str, ReceiverSettings], timeout: float = OPEN_TIMEOUT) -> Mapping[str, Receiver]:
    """Raises Invalid if a receiver has a kind that nobody provides."""
    known = {entry.name for entry in entry_points(group=GROUP)} if settings else set()
    for name, one in settings.items():
        if one.kind not in known:
            kinds = ", ".join(sorted(known)) or "none: install Lakehand again"
            raise Invalid(f"alerts.receivers.{name}: no alerter is called {one.kind!r}; there are: {kinds}")
    return {name: open_receiver(name, one, timeout) for name, one in settings.items()}


def open_receiver(name: str, one: ReceiverSettings, timeout: float) -> Receiver:
    """In a separate thread, so that an alerter that hangs does not block the start."""
    properties = one.all_properties()
    secrets = tuple(properties.values())
    made: list[Receiver] = []

    def make() -> None:
        try:
            made.append(Receiver(name=name, alerter=opened(one.kind, properties), secrets=secrets))
        except (Exception, SystemExit) as error:
            made.append(broken(name, f"{type(error).__name__}: {error}", secrets))

    work = threading.Thread(target=make, name=f"load-{name}", daemon=True)
    work.start()
    work.join(timeout)
    return made[0] if made else broken(name, f"it was not imported and opened within {timeout:.0f} s", secrets)


def opened(kind: str, properties: Mapping[str, str]) -> Alerter:
    [entry] = [entry for entry in entry_points(group=GROUP) if entry.name == kind][:1]
    alerter = entry.load()()
    if not isinstance(alerter, Alerter):
        raise PluginBroken(f"{entry.value} is not an Alerter")
    alerter.open(properties)
    return alerter


def broken(name: str, why: str, secrets: tuple[str, ...]) -> Receiver:
    found = Receiver(name=name, alerter=None, secrets=secrets)
    found.problem = f"the receiver cannot be used: {found.hidden(why)}"
    log.warning("a receiver of alerts cannot be used", extra={"receiver": name, "reason": found.problem})
    return found


class Alerting:
    def __init__(
        self, settings: Settings, store: Store, metrics: Metrics, holder: InstanceId, wake: Callable[[], None],
        *, audit: AuditTrail,
    ) -> None:  # fmt: skip
        self.settings, self.store, self.metrics, self.holder, self.wake = settings, store, metrics, holder, wake
        self.receivers = open_receivers(settings.alerts.receivers)
        metrics.receivers(self.receivers)
        self.pools = WorkerPools(purpose="alert", size=THREADS, timeout=SEND_TIMEOUT)
        self.test_pools = WorkerPools(purpose="alert-test", size=THREADS, timeout=SEND_TIMEOUT)
        self.service = AlertService(store=store, audit=audit, receivers=self.receivers, pools=self.test_pools)
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
