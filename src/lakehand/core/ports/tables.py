# SPDX-License-Identifier: Apache-2.0
"""Tables, their schedules and probes, what is remembered of each, and numbers about all of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from lakehand.core.ports.world import Page
from lakehand.domain.actions import Action
from lakehand.domain.fleet import (
    FleetChoices,
    FleetProblems,
    FleetSummary,
    FleetTables,
    FleetTrend,
    OperationCounts,
    TableSort,
    TableState,
)
from lakehand.domain.health import HealthPoint
from lakehand.domain.notifications import ChangedPartitions
from lakehand.domain.operations import InstanceId, OperationId
from lakehand.domain.schedules import EvaluationResult, Schedule
from lakehand.domain.tables import Format, Table, TableChanges, TableId, TableSpec
from lakehand.spi.factories import ProcessTriggerStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    location: str | None = None  # exactly
    db_name: str | None = None
    table_name: str | None = None
    owner: str | None = None
    queue: str | None = None
    format: str | None = None
    catalog: str | None = None
    paused: bool | None = None
    removed: bool = False
    state: TableState | None = None
    search: str | None = None  # a part of db_name.table_name or of the location, in any case


class Tables(Protocol):
    def get(self, id: TableId) -> Table:
        """Raises NotFound. A removed table is found, with ``removed`` set."""

    def by_locations(self, locations: Collection[str]) -> Mapping[str, Table]:
        """Registered (not removed) tables by normalised location, all spellings of a storage included."""

    def by_ids(self, ids: Collection[TableId]) -> Mapping[TableId, Table]: ...

    def by_name(self, db_name: str, table_name: str) -> Sequence[Table]:
        """Registered tables of that name; more than one is possible where db_name is empty, or in several catalogs."""

    def by_names(self, names: Collection[tuple[str, str]]) -> Sequence[Table]:
        """As ``by_name`` for many names, (db_name, table_name) each."""

    def overlapping(self, real: str) -> Sequence[Table]:
        """The first few registered tables whose real path may be this one, contain it or lie in it.

        As the paths were when each was last registered or admitted.
        """

    def with_overlapping(self, id: TableId) -> tuple[Table, Sequence[Table]]:
        """As ``get``, with what ``overlapping`` finds for its real path, the table itself included."""

    def list(self, filter: TableFilter, *, limit: int, cursor: str | None) -> Page[Table]: ...

    def add(self, spec: TableSpec, *, now: datetime, real: str = "") -> tuple[Table, bool]:
        """Register, or revive a removed one, or find the registered one unchanged. True when it was not there before.

        ``real``: the location with all links resolved; empty: they were not.
        Its schedules are made, due at once. Raises Conflict when another location has that (db_name, table_name).
        """

    def change(self, id: TableId, changes: TableChanges, *, now: datetime) -> Table:
        """Schedules follow the action types; added ones are due at once.

        Waiting operations follow priority, queue and owner, unless their requests set them. Those of
        removed actions end as DROPPED, except while they are leased.
        """

    def set_real(self, id: TableId, real: str) -> None:
        """Store where the location leads now."""

    def remove(self, id: TableId, *, now: datetime) -> None:
        """Remove the table and its schedules, but keep its history."""


class DueProbe(NamedTuple):
    """A table to probe. Small, since there may be tens of thousands of them."""

    table: TableId
    format: Format
    location: str
    catalog: str
    db_name: str
    table_name: str
    heartbeat: int  # milliseconds until the next one
    token: str | None  # what the last probe saw
    problem: str | None = None  # why it cannot be read
    problem_stays: bool | None = None  # whatever this probe sees


class Probes(Protocol):
    """When each table is probed for changes, once for all of its actions."""

    def claim_due(self, *, now: datetime, time_to_live: timedelta, limit: int) -> Sequence[DueProbe]:
        """Claim the most overdue tables that are neither paused nor removed, for the time to live."""

    def finish(
        self, next_due: Mapping[TableId, datetime], tokens: Mapping[TableId, str], *, now: datetime,
        woken: Collection[tuple[TableId, Action]] = (), results: Sequence[EvaluationResult] = (),
        problems: Mapping[TableId, str] | None = None, inspected: Mapping[TableId, str] | None = None,
        health: Mapping[TableId, HealthPoint] | None = None,
    ) -> None:  # fmt: skip
        """Store when probed tables are due again, the tokens of changed ones, and wake these schedules.

        All in one transaction: a crash cannot store a token and lose the wake-up. Not fenced: of two instances that
        probed a table, each wakes the schedules for the change that it saw. ``results``: as for ``Schedules.finish``.

        ``problems``: why probed tables could not be read; the first time is kept while a problem lasts, and a table
        of ``next_due`` without one has none any more. ``inspected``: tables whose metadata was read, each with why it
        could not be understood, or an empty text; that problem stays until the metadata is understood, whatever probes
        see. ``health``: points to store, of whichever tables.
        """

    def defer(self, tables: Collection[TableId], *, until: datetime) -> None:
        """Probe these later; nothing was seen."""


class DueSchedules(NamedTuple):
    schedules: Sequence[Schedule]
    tables: Mapping[TableId, Table]  # theirs


class Schedules(Protocol):
    def claim_due(self, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int) -> DueSchedules:
        """Due schedules of tables that are neither paused nor removed, most overdue first, each with a fresh token.

        All due actions of one table come together, so there may be a few more than the limit. The tables come along.
        """

    def finish(self, results: Sequence[EvaluationResult], *, now: datetime) -> None:
        """Write the results in one transaction, each fenced by its token.

        The wake-ups that the evaluation knew (``schedule.wakes``) are subtracted; one that came meanwhile keeps the
        schedule due, and a decision that was asked for meanwhile stays asked for.
        """

    def wake(
        self, tables: Collection[TableId], *, now: datetime, action: Action | None = None, decide: bool = False
    ) -> None:
        """Make these due now. ``decide``: ask their factories even if the tables have not changed."""

    def release(self, holder: InstanceId) -> int:
        """End the leases that a former process of this instance left. Returns how many."""

    def refit(self, strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy], *, now: datetime) -> None:
        """Make due what earlier processes scheduled by other strategies than those of this one.

        That is a schedule without a plugin, one that waits longer than its interval, and a change-driven one that has
        not seen the last change.
        """

    def of_table(self, table: TableId) -> Sequence[Schedule]: ...


class HealthHistory(Protocol):
    """The points that ``Probes.finish`` and ``Operations.save`` wrote, a few hundred for each table at most."""

    def of_table(self, table: TableId, since: datetime | None = None) -> Sequence[HealthPoint]:
        """Oldest first, the sparser the older."""

    def remove_before(self, before: datetime, *, limit: int) -> int: ...


class States(Protocol):
    def get(self, table: TableId, factory: str, key: str) -> str | None: ...

    def put(self, table: TableId, factory: str, key: str, value: str, *, seen: str | None) -> bool:
        """Write if the value is still the one that was seen; False when it is not."""


class Partitions(Protocol):
    """What ``Inbox.store`` merged, and ``Schedules.finish`` and ``Probes.finish`` have not removed as used."""

    def changed(self, table: TableId) -> ChangedPartitions: ...


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
