# SPDX-License-Identifier: Apache-2.0
"""The fleet: the state of each table, and numbers over all tables and all operations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lakehand.domain.actions import Action
from lakehand.domain.operations import OperationId
from lakehand.domain.tables import Table
from lakehand.domain.texts import Word

RETRIED = "retried"  # counted beside the final statuses: an attempt failed, and another one follows
POINT_EVERY = timedelta(minutes=5)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_FINE, _COARSE = timedelta(days=2), timedelta(days=60)  # every point, then one per hour, then one per day


class TableState(Word):
    """The one word for a table. If several apply, the first of these counts."""

    PAUSED = "paused"
    UNREADABLE = "unreadable"  # its metadata cannot be read
    FAILED = "failed"  # the last operation of one of its actions failed for good
    WORKING = "working"  # an engine may be working on it
    NEEDS_WORK = "needs-work"  # an operation waits
    NEW = "new"  # not evaluated yet
    HEALTHY = "healthy"


# What a person wants to see first.
ATTENTION = (
    TableState.FAILED, TableState.UNREADABLE, TableState.NEEDS_WORK, TableState.WORKING, TableState.NEW,
    TableState.PAUSED, TableState.HEALTHY,
)  # fmt: skip


class TableSort(Word):
    NAME = "name"
    STATE = "state"  # what needs attention first
    FILES = "files"
    SMALL_FILES = "small_files"
    BYTES = "bytes"
    UPDATED = "updated"  # when its settings were last changed


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTotals:
    """Sums over tables. A table whose health is not known yet counts as a table only."""

    tables: int = 0
    files: int = 0
    small_files: int = 0
    bytes: int = 0
    small_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    states: Mapping[TableState, int]  # every state, also those without tables
    totals: FleetTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChoices:
    """The values that registered tables have, in alphabetical order, for filters to offer."""

    formats: Sequence[str]
    catalogs: Sequence[str]
    owners: Sequence[str]
    queues: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTable:
    """A table with its state and its newest numbers; None where they are not known yet."""

    table: Table
    state: TableState
    reason: str = ""  # why it cannot be read; else the last reason of its failed, or last evaluated, action
    decided_at: datetime | None = None  # when the table was read for that reason: its numbers are of that time
    problem: str = ""  # why it cannot be read; empty while it can
    problem_since: datetime | None = None
    health_at: datetime | None = None  # when the numbers were read
    files: int | None = None
    small_files: int | None = None
    bytes: int | None = None
    small_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTables:
    """Some of the tables that match, and how many match."""

    items: Sequence[FleetTable]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProblem:
    """A table that needs a person: an action of it failed for good, or it cannot be read."""

    table: Table
    state: TableState  # FAILED or UNREADABLE
    reason: str  # one sentence
    since: datetime | None
    action: Action | None = None  # of a failure
    operation: OperationId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProblems:
    """The newest problems, and how many there are."""

    items: Sequence[FleetProblem]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPoint:
    at: datetime
    totals: FleetTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTrend:
    """Totals over time, oldest first: of all tables, and of the owners with the most small files now."""

    total: Sequence[FleetPoint]
    owners: Mapping[str, Sequence[FleetPoint]]  # the owner with the most small files first


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCounts:
    """What operations that ended in some time did; or the attempts, with the status ``retried``."""

    hour: datetime
    status: str  # a final status, or "retried"
    operations: int = 0
    attempts: int = 0
    files_removed: int = 0
    bytes_rewritten: int = 0
    wait: timedelta = timedelta()
    run: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationHour:
    """How many operations ended in one hour, by their status."""

    hour: datetime  # its beginning
    succeeded: int = 0
    retried: int = 0  # attempts that failed and were followed by another one
    failed: int = 0
    canceled: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsDone:
    """What was done since a time, in whole hours."""

    since: datetime
    operations: int = 0  # that ended, whatever their status
    succeeded: int = 0
    failed: int = 0
    attempts: int = 0
    files_removed: int = 0
    bytes_rewritten: int = 0
    mean_wait: timedelta | None = None  # from due to submitted; of those that succeeded or failed
    mean_run: timedelta | None = None

    @property
    def success_rate(self) -> float | None:
        """Of those that succeeded or failed; None if there are none."""
        ran = self.succeeded + self.failed
        return self.succeeded / ran if ran else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    queue: str
    waiting: int = 0
    oldest: datetime | None = None  # since when the oldest operation that may start is due
    running: int = 0


def floor_time(time: datetime, step: timedelta) -> datetime:
    """The last multiple of the step since the epoch."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return time - (time - epoch) % step


def superfluous_points(times: Iterable[datetime], *, now: datetime, keep: timedelta) -> list[datetime]:
    """Points to remove: after two days all but the first of each hour, after sixty all but the first of each day."""
    superfluous: list[datetime] = []
    kept: set[tuple[timedelta, datetime]] = set()
    for time in sorted(times):
        step = step_at(now - time)
        period = (step, floor_time(time, step))
        if now - time > keep or period in kept:
            superfluous.append(time)
        kept.add(period)
    return superfluous


def step_at(age: timedelta) -> timedelta:
    if age <= _FINE:
        return POINT_EVERY
    return _HOUR if age <= _COARSE else _DAY
