# SPDX-License-Identifier: Apache-2.0
"""Finds what is wrong now, compares it with the open alerts, and stores the difference. Safe in every instance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakehand.core.ports import LostLease, Metrics, PluginReport, Store, TableTrouble, Troubles
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertKind, AlertRules, Cause, Coverage, compare
from lakehand.domain.operations import InstanceId
from lakehand.spi.engines import EngineHealth

BAD_STATES = frozenset({"broken", "failing", "stuck"})
TAKEN_OVER = "taken over from "
MOST_RESTARTS = 3
RESTART_SPAN = timedelta(minutes=15)
MOST = 5000  # causes of one kind that are read; if there are more, none of them is resolved
SETTLE = timedelta(minutes=1)  # a cause has to be gone for so long, so that one that flickers is one alert
GONE = timedelta(minutes=5)  # an instance without a heartbeat for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLimits:
    """How long something may be wrong before it is worth an alert."""

    queue_wait: timedelta = timedelta(hours=1)
    unreadable: timedelta = timedelta(minutes=5)
    unknown: timedelta = timedelta(minutes=30)
    engine_down: timedelta = timedelta(minutes=5)
    lease_lost: timedelta = timedelta(minutes=30)  # for so long the loss of a lease counts
    free_disk: float = 0.05  # share of the disk


def table_causes(troubles: Troubles) -> Iterator[Cause]:
    yield from (failed_cause(one) for one in troubles.failed)
    yield from (paused_cause(one) for one in troubles.paused)
    yield from (unreadable_cause(one) for one in troubles.unreadable)
    yield from (unknown_cause(one) for one in troubles.unknown)
    yield from {cause.key: cause for cause in map(lost_cause, troubles.lost_leases)}.values()  # the newest of each


def failed_cause(one: TableTrouble) -> Cause:
    return Cause(
        key=f"operation-failed:{one.table}:{one.action}", kind=AlertKind.OPERATION_FAILED,
        title=f"{one.action} of {one.name} failed", message=one.reason, occurrence=str(one.operation),
        table=one.table, operation=one.operation, owner=one.owner, queue=one.queue, format=one.format,
    )  # fmt: skip


def paused_cause(one: TableTrouble) -> Cause:
    """Open until someone resumes the table."""
    return Cause(
        key=f"rows-differ:{one.table}", kind=AlertKind.ROWS_DIFFER, title=f"{one.name} is paused because of its rows",
        message=one.reason, table=one.table, owner=one.owner, queue=one.queue, format=one.format,
    )  # fmt: skip


def unreadable_cause(one: TableTrouble) -> Cause:
    return Cause(
        key=f"table-unreadable:{one.table}", kind=AlertKind.TABLE_UNREADABLE, title=f"{one.name} cannot be read",
        message=one.reason, occurrence=str(one.since), table=one.table, owner=one.owner, queue=one.queue,
        format=one.format,
    )  # fmt: skip


def unknown_cause(one: TableTrouble) -> Cause:
    return Cause(
        key=f"operation-unknown:{one.operation}", kind=AlertKind.OPERATION_UNKNOWN,
        title=f"nobody knows how {one.action} of {one.name} ended", message=one.reason, table=one.table,
        operation=one.operation, owner=one.owner, queue=one.queue, format=one.format,
    )  # fmt: skip


def lost_cause(one: LostLease) -> Cause:
    holder = one.message.removeprefix(TAKEN_OVER)
    return Cause(
        key=f"lease-lost:{holder}", kind=AlertKind.LEASE_LOST, title=f"instance {holder} lost leases",
        message="it did not renew them in time, and another instance took its operations over: see its log",
        occurrence=str(one.event),
    )  # fmt: skip


def queue_causes(
    depth: Mapping[str, tuple[int, datetime | None]], now: datetime, longest: timedelta
) -> Iterator[Cause]:
    for queue, (count, oldest) in depth.items():
        if oldest is not None and now - oldest >= longest:
            yield Cause(
                key=f"queue-stuck:{queue}", kind=AlertKind.QUEUE_STUCK, title=f"the queue {queue} is stuck",
                message=f"its oldest operation is due since {oldest:%Y-%m-%d %H:%M} UTC, and {count} operations wait",
                queue=queue,
            )  # fmt: skip


def plugin_causes(reports: Sequence[PluginReport], instance: str) -> Iterator[Cause]:
    for one in reports:
        if one.state in BAD_STATES:
            yield Cause(
                key=f"plugin-broken:{instance}:{one.kind}:{one.name}", kind=AlertKind.PLUGIN_BROKEN,
                title=f"the {one.kind} {one.name} is {one.state}", message=one.reason or one.last_error,
                instance=instance,
            )  # fmt: skip


def disk_causes(free: float, problem: str, instance: str, least: float) -> Iterator[Cause]:
    if free < least or problem:
        full = f"{free:.1%} of the disk of instance {instance} is free"
        yield Cause(
            key=f"disk-full:{instance}", kind=AlertKind.DISK_FULL,
            title="the database does not accept writes" if problem else f"the disk of instance {instance} fills up",
            message=problem or f"{full}: make room, else nothing can be stored", instance=instance,
        )  # fmt: skip


@dataclass(slots=True)
class EngineHistory:
    """How one engine of this instance has been."""

    down_since: datetime | None = None
    restarts: list[tuple[datetime, int]] = field(default_factory=list)

    def problem(self, health: EngineHealth, *, is_wanted: bool, now: datetime, longest: timedelta) -> str:
        """Why it needs a person; empty if it does not. An engine without work may be down."""
        self.down_since = None if health.is_up or not is_wanted else self.down_since or now
        self.restarts = [(at, count) for at, count in self.restarts if now - at <= RESTART_SPAN]
        self.restarts.append((now, health.restarts))
        fresh = health.restarts - self.restarts[0][1]
        if fresh >= MOST_RESTARTS:
            return f"it was started again {fresh} times in {RESTART_SPAN.seconds // 60} minutes; {health.detail}"
        if self.down_since is not None and now - self.down_since >= longest:
            return f"it is down since {self.down_since:%H:%M} UTC while it has work; {health.detail}"
        return ""


def engine_cause(name: str, problem: str, instance: str) -> Cause:
    return Cause(
        key=f"engine-down:{instance}:{name}", kind=AlertKind.ENGINE_DOWN,
        title=f"the engine {name} of instance {instance} does not run", message=problem, instance=instance,
    )  # fmt: skip


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
        coverage = Coverage(instance=self.holder, gone=self.gone(alerts, now), unclear=unclear_kinds(troubles))
        found = compare(alerts, causes, coverage=coverage, now=now)
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
