# SPDX-License-Identifier: Apache-2.0
"""Compares what is wrong now with the open alerts, and stores the difference. Safe to run in every instance at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakehand.core.loops.alert_causes import (
    AlertLimits,
    EngineHistory,
    disk_causes,
    engine_cause,
    plugin_causes,
    queue_causes,
    table_causes,
)
from lakehand.core.ports import Metrics, PluginReport, Store, Troubles
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertKind, AlertRules, Cause, Sight, compare
from lakehand.domain.operations import InstanceId
from lakehand.spi.engines import EngineHealth

MOST = 5000  # causes of one kind that are read; if there are more, none of them is resolved
SETTLE = timedelta(minutes=1)  # a cause has to be gone for so long, so that one that flickers is one alert
GONE = timedelta(minutes=5)  # an instance without a heartbeat for so long


@dataclass(kw_only=True)
class AlertMonitor:
    store: Store
    metrics: Metrics
    rules: AlertRules
    holder: InstanceId
    engines: Callable[[], Mapping[str, EngineHealth]]  # the last reports of this instance's engines
    plugins: Callable[[], Sequence[PluginReport]]
    free_disk: Callable[[], float]  # share of the disk with our home
    limits: AlertLimits = field(default_factory=AlertLimits)
    wake: Callable[[], None] = lambda: None
    settle: timedelta = SETTLE
    _absent_since: dict[AlertId, datetime] = field(default_factory=dict)
    _histories: dict[str, EngineHistory] = field(default_factory=dict)

    def run_once(self) -> bool:
        now = self.store.clock.now()
        alerts = self.store.alerts.open_alerts()  # before the causes: else a rival's fresh alert looks resolved
        troubles = self.read_troubles(now)
        causes = [*table_causes(troubles), *self.own_causes(now)]
        sight = Sight(instance=self.holder, gone=self.gone(alerts, now), unclear=unclear_kinds(troubles))
        found = compare(alerts, causes, sight=sight, now=now)
        changes = replace(found, resolve=self.settled(found.resolve, now))
        if has_any(changes):
            self.store.alerts.change(changes, self.rules, read_at=now, now=now)
            self.wake()
        self.metrics.alerts({str(severity): count for severity, count in self.store.alerts.counts().items()})
        return False

    def read_troubles(self, now: datetime) -> Troubles:
        limits = self.limits
        return self.store.alerts.troubles(
            unreadable_since=now - limits.unreadable, unknown_since=now - limits.unknown,
            lost_since=now - limits.lease_lost, limit=MOST,
        )  # fmt: skip

    def own_causes(self, now: datetime) -> Iterator[Cause]:
        depth = self.store.operations.queue_depth(now=now)
        yield from queue_causes(depth, now, self.limits.queue_wait)
        yield from self.engine_causes(now)
        yield from plugin_causes(self.plugins(), self.holder)
        free = self.free_disk()
        self.metrics.disk(free)
        yield from disk_causes(free, self.store.problem(), self.holder, self.limits.free_disk)

    def engine_causes(self, now: datetime) -> Iterator[Cause]:
        healths = self.engines()
        is_any_down = any(not health.is_up for health in healths.values())
        wanted = {one.process.engine for one in self.store.operations.held(self.holder)} if is_any_down else set()
        for name, health in healths.items():
            history = self._histories.setdefault(name, EngineHistory())
            problem = history.problem(health, is_wanted=name in wanted, now=now, longest=self.limits.engine_down)
            if problem:
                yield engine_cause(name, problem, self.holder)

    def gone(self, alerts: Sequence[Alert], now: datetime) -> frozenset[str]:
        """Instances that have alerts and no heartbeat."""
        named = {alert.cause.instance for alert in alerts} - {"", self.holder}
        if not named:
            return frozenset()
        return frozenset(named - {one.id for one in self.store.instances.list() if now - one.seen_at < GONE})

    def settled(self, resolved: Sequence[Alert], now: datetime) -> Sequence[Alert]:
        self._absent_since = {alert.id: self._absent_since.get(alert.id, now) for alert in resolved}
        return [alert for alert in resolved if now - self._absent_since[alert.id] >= self.settle]


def unclear_kinds(troubles: Troubles) -> frozenset[AlertKind]:
    lists = {
        AlertKind.OPERATION_FAILED: troubles.failed,
        AlertKind.ROWS_DIFFER: troubles.paused,
        AlertKind.TABLE_UNREADABLE: troubles.unreadable,
        AlertKind.OPERATION_UNKNOWN: troubles.unknown,
        AlertKind.LEASE_LOST: troubles.lost_leases,
    }
    return frozenset(kind for kind, found in lists.items() if len(found) >= MOST)


def has_any(changes: AlertChanges) -> bool:
    return bool(changes.open or changes.refresh or changes.resolve or changes.remind)
