# SPDX-License-Identifier: Apache-2.0
"""What the core asks of the world: store, clock, metrics. A contract suite holds each implementation to it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, Protocol, TypeVar

from lakehand.core.plugins import PluginReport
from lakehand.domain.actions import Action
from lakehand.domain.events import Event, StoredEvent
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import (
    Attempt,
    Handle,
    InstanceId,
    LeaseToken,
    NewOperation,
    Operation,
    OperationId,
    Status,
)
from lakehand.domain.processes import Instant, Json
from lakehand.domain.rules import Busy, Candidate
from lakehand.domain.schedules import Look, Schedule
from lakehand.domain.tables import Format, Table, TableChanges, TableId, TableSpec
from lakehand.spi.factories import ProcessTriggerStrategy

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> datetime:
        """The database's time, in UTC: all instances agree on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: Sequence[T]
    next: str | None  # give it back as the cursor to go on; None at the end


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFilter:
    table: TableId | None = None
    location: str | None = None
    action: Action | None = None
    statuses: Collection[Status] = ()
    owner: str | None = None
    queue: str | None = None


class Tables(Protocol):
    def get(self, id: TableId) -> Table:
        """Raises NotFound. A removed table is found, with ``removed`` set."""

    def by_locations(self, locations: Collection[str]) -> Mapping[str, Table]:
        """Registered (not removed) tables by normalised location, all spellings of a storage included."""

    def by_ids(self, ids: Collection[TableId]) -> Mapping[TableId, Table]: ...

    def by_name(self, db_name: str, table_name: str) -> Sequence[Table]:
        """Registered tables of that name; more than one is possible where db_name is empty, or in several catalogs."""

    def list(self, filter: TableFilter, *, limit: int, cursor: str | None) -> Page[Table]: ...

    def add(self, spec: TableSpec, *, now: datetime) -> tuple[Table, bool]:
        """Register, or revive a removed one, or find the registered one unchanged. True when it was not there before.

        Its schedules are made, due at once. Raises Conflict when another location has that (db_name, table_name).
        """

    def change(self, id: TableId, changes: TableChanges, *, now: datetime) -> Table:
        """Schedules follow the action types; added ones are due at once."""

    def remove(self, id: TableId, *, now: datetime) -> None:
        """Forget the table but keep its history; its schedules go."""


class Operations(Protocol):
    def get(self, id: OperationId) -> Operation: ...

    def find(self, table: TableId, instant: Instant) -> Operation | None: ...

    def list(self, filter: OperationFilter, *, limit: int, cursor: str | None) -> Page[Operation]:
        """Newest first."""

    def of_table(self, table: TableId, *, recent: int, waiting: int = 1000) -> Sequence[Operation]:
        """Live operations, the ``waiting`` oldest pending and the ``recent`` newest finished ones, newest first."""

    def unfinished(self, table: TableId) -> Mapping[str, int]:
        """How many operations of each action are not finished."""

    def end_waiting(self, table: TableId, *, now: datetime, reason: str, limit: int) -> Sequence[OperationId]:
        """Cancel and delete up to so many pending operations that nobody holds, in one transaction. Returns them."""

    def add(self, new: NewOperation, *, now: datetime, event: Event | None = None) -> tuple[Operation, bool]:
        """Store it, or find the one that has this (table, instant). True when it was stored. The event comes along."""

    def candidates(self, *, now: datetime, limit: int) -> Sequence[Candidate]:
        """Pending, due, unleased operations of tables that are not paused or removed: the best by priority and age.

        At most a few per table, so that one table with a thousand plans hides no other.
        """

    def busy(self) -> Sequence[Busy]:
        """Every live operation, over all instances."""

    def claim(
        self,
        operation: Operation,
        *,
        holder: InstanceId,
        now: datetime,
        time_to_live: timedelta,
        places: Collection[str] = (),
    ) -> Operation | None:
        """Take the lease of a pending operation and its table's slot, in one compare-and-set. None when a rival won.

        The status stays PENDING; the row leaves ``candidates`` while the lease lasts. Where ``places`` are named, it
        also takes a free one of them and keeps it as long as its slot: no two operations have the same place.
        """

    def save(
        self,
        operation: Operation,
        *,
        now: datetime,
        attempt: Attempt | None = None,
        event: Event | None = None,
        release: bool = False,
    ) -> Operation:
        """Write the row, its attempt (upsert by number) and an event in one transaction, fenced by the lease's token.

        ``release`` gives the lease and the slot back; a final or PENDING-again row must release. Raises LeaseLost.
        ``cancel_requested`` and ``is_deleted`` belong to others and are not written here. Returns the row as stored.
        """

    def renew(
        self, leases: Mapping[OperationId, LeaseToken], *, now: datetime, time_to_live: timedelta
    ) -> Collection[OperationId]:
        """Prolong leases that are still ours; the ids that were not lost."""

    def held(self, holder: InstanceId) -> Sequence[Operation]:
        """Operations whose lease this instance holds, by the row; it may have run out."""

    def late(self, *, now: datetime, margin: timedelta, limit: int) -> Sequence[Operation]:
        """Leased operations whose lease ended more than the margin ago, the latest first."""

    def take_over(
        self, operation: Operation, *, holder: InstanceId, now: datetime, time_to_live: timedelta
    ) -> Operation | None:
        """Take the lease from the holder that ``operation`` shows (its token is repeated), with a fresh token."""

    def request_cancel(self, id: OperationId, *, now: datetime, event: Event, delete: bool = False) -> Operation:
        """Ask for the end of an operation. One that nobody holds ends at once; a live one is flagged for its holder.

        ``delete`` marks it as removed from the service too (RFC-43's is_deleted). A finished one stays as it is.
        """

    def reopen(self, operation: Operation, *, now: datetime, event: Event) -> Operation:
        """Store ``operation.reopened()``; raises Conflict when the row has moved meanwhile."""

    def attempts(self, id: OperationId) -> Sequence[Attempt]: ...

    def queue_depth(self, *, now: datetime) -> Mapping[str, tuple[int, datetime | None]]:
        """Per queue: how many pending operations, and since when the oldest is due."""

    def remove_finished(self, *, before: datetime, limit: int) -> int:
        """Delete finished operations (with attempts and events) that ended before; never an unfinished one."""


class DueProbe(NamedTuple):
    """A table that is to be probed: no more than that takes, as there may be tens of thousands of them."""

    table: TableId
    format: Format
    location: str
    catalog: str
    db_name: str
    table_name: str
    heartbeat: int  # milliseconds until the next one
    token: str | None  # what the last probe saw


class Probes(Protocol):
    """When each table is probed for changes, once for all of its actions."""

    def claim_due(self, *, now: datetime, time_to_live: timedelta, limit: int) -> Sequence[DueProbe]:
        """The most overdue tables that are neither paused nor removed. Nobody else has them for so long."""

    def finish(self, next_due: Mapping[TableId, datetime], tokens: Mapping[TableId, str], *, now: datetime) -> None:
        """These tables were probed, and are due again then; those in ``tokens`` have changed.

        Not fenced: of two who probed a table, each has told of the change that it saw before it says so here.
        """

    def put_off(self, tables: Collection[TableId], *, until: datetime) -> None:
        """There was no time for them."""


class Schedules(Protocol):
    def claim_due(
        self, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int
    ) -> Sequence[Schedule]:
        """Due schedules of tables that are neither paused nor removed, most overdue first, each with a fresh token.

        All due actions of one table come together.
        """

    def finish(self, looks: Sequence[Look], *, now: datetime) -> None:
        """Write the outcomes in one transaction, each fenced by its token.

        The wakes that the look has seen (``schedule.wakes``) are answered and taken off; one that came meanwhile keeps
        the schedule due, and a decision that was asked for meanwhile stays asked for.
        """

    def wake(
        self, tables: Collection[TableId], *, now: datetime, action: Action | None = None, decide: bool = False
    ) -> None:
        """Make these due now. ``decide``: their factories are to be asked, whatever the tables look like."""

    def refit(self, strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy], *, now: datetime) -> None:
        """Compare what earlier processes have written with the strategies of this one: what does not fit is due now.

        That is a schedule that nobody serves, one that waits longer than its interval, and one that follows changes
        and has not seen the last one.
        """

    def of_table(self, table: TableId) -> Sequence[Schedule]: ...

    def next_due(self) -> datetime | None: ...


class Inbox(Protocol):
    def store(self, rows: Sequence[InboxRow], events: Sequence[Event], *, now: datetime) -> Sequence[TableId]:
        """Store a batch, and events that belong to no table, in one transaction; durable when it returns."""


class Events(Protocol):
    def add(self, events: Sequence[Event], *, now: datetime) -> None: ...

    def list(
        self,
        *,
        table: TableId | None = None,
        operation: OperationId | None = None,
        kind: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[StoredEvent]:
        """Newest first. ``kind`` matches a whole kind or a prefix that ends in a dot."""

    def remove_before(self, before: datetime, *, limit: int) -> int: ...


class States(Protocol):
    def get(self, table: TableId, factory: str, key: str) -> str | None: ...

    def put(self, table: TableId, factory: str, key: str, value: str, *, seen: str | None) -> bool:
        """Write if the value is still the one that was seen; False when it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: InstanceId
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    detail: Mapping[str, Json]


class Instances(Protocol):
    def beat(self, id: InstanceId, *, host: str, version: str, detail: Mapping[str, Json], now: datetime) -> None: ...

    def list(self) -> Sequence[Instance]: ...

    def remove_before(self, before: datetime) -> int: ...


class Store(Protocol):
    """All of the above over one database."""

    @property
    def clock(self) -> Clock: ...
    @property
    def tables(self) -> Tables: ...
    @property
    def operations(self) -> Operations: ...
    @property
    def probes(self) -> Probes: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def events(self) -> Events: ...
    @property
    def states(self) -> States: ...
    @property
    def instances(self) -> Instances: ...

    def problem(self) -> str:
        """Why nothing can be stored right now; empty while all is well, as far as is known."""


class Metrics(Protocol):
    """Counted at the loops and faces, never in the rules."""

    def scheduled(self, action: str, delay: timedelta) -> None:
        """Became due → pending."""

    def submitted(self, action: str, delay: timedelta) -> None:
        """Pending → accepted by an engine."""

    def finished(self, action: str, status: str, reason: str, run_time: timedelta) -> None: ...

    def attempt_failed(self, action: str, reason: str) -> None: ...

    def lease_lost(self, action: str) -> None: ...

    def looked(self, tables: int, changed: int) -> None: ...

    def loop(self, name: str, seconds: float, failed: bool) -> None: ...

    def queue(self, depth: Mapping[str, tuple[int, float]]) -> None:
        """Per queue: depth, and the age of the oldest in seconds."""

    def engine(self, name: str, up: bool, restarts: int) -> None: ...

    def plugins(self, reports: Sequence[PluginReport]) -> None:
        """Every plugin as it is now."""


class Secrets(Protocol):
    def handle(self, operation: Operation) -> Handle:
        """A fresh, never repeated handle for the next attempt of an operation."""

    def chance(self) -> float:
        """A number in [0, 1), for jitter."""
