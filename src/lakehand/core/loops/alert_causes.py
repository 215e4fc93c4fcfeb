# SPDX-License-Identifier: Apache-2.0
"""What is worth an alert: turns states of tables, queues, engines, plugins and disk into causes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.core.ports import LostLease, PluginReport, TableTrouble, Troubles
from lakehand.domain.alerts import AlertKind, Cause
from lakehand.spi.engines import EngineHealth

BAD_STATES = frozenset({"broken", "failing", "stuck"})
TAKEN_OVER = "taken over from "
MOST_RESTARTS = 3
RESTART_SPAN = timedelta(minutes=15)


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
