# SPDX-License-Identifier: Apache-2.0
"""Numbers about all tables, and what is wrong with some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakehand.core.ports.tables import TableFilter
from lakehand.domain.fleet import (
    FleetChoices,
    FleetProblems,
    FleetSummary,
    FleetTables,
    FleetTrend,
    OperationCounts,
    TableSort,
)
from lakehand.domain.operations import (
    OperationId,
)
from lakehand.domain.tables import TableId


class Fleet(Protocol):
    """Numbers over all registered tables and all operations. No call reads finished operations one by one."""

    def summary(self, filter: TableFilter) -> FleetSummary: ...

    def choices(self, *, limit: int) -> FleetChoices:
        """At most ``limit`` values of each kind."""

    def tables(
        self, filter: TableFilter, *, sort: TableSort, descending: bool, limit: int, offset: int
    ) -> FleetTables: ...

    def problems(self, *, limit: int) -> FleetProblems:
        """Failed and unreadable tables that are not paused, newest first; one item per failed action."""

    def running(self) -> Mapping[str, int]:
        """Live operations per queue."""

    def trend(self, *, since: datetime, step: timedelta, owners: int) -> FleetTrend:
        """The first recorded point of each step, and the newest; with those of so many owners."""

    def counts(self, *, since: datetime) -> Sequence[OperationCounts]:
        """What ended since then, per hour and status, oldest first. It is counted by ``Operations`` as it ends."""

    def record(self, *, at: datetime, owners: int) -> bool:
        """Store the totals of the fleet and of so many owners under this time. False if they are stored already."""

    def point_times(self) -> Sequence[datetime]: ...

    def remove_points(self, times: Sequence[datetime]) -> None: ...

    def remove_counts(self, *, before: datetime) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrouble:
    """A table, or an operation of it, that may be worth an alert."""

    table: TableId
    name: str
    owner: str
    queue: str
    format: str
    reason: str
    since: datetime | None
    action: str = ""
    operation: OperationId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLease:
    """An operation that was taken over: the message of the event, and its id."""

    message: str
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """What the database shows; each list has at most the limit that was asked for."""

    failed: Sequence[TableTrouble] = ()
    unreadable: Sequence[TableTrouble] = ()
    unknown: Sequence[TableTrouble] = ()
    paused: Sequence[TableTrouble] = ()  # by the service itself, with the reason
    lost_leases: Sequence[LostLease] = ()
