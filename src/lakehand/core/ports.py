# SPDX-License-Identifier: Apache-2.0
"""The ports of the core: store, clock, metrics, ids. A contract suite checks each implementation."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from lakehand.core.access_ports import Audit, Sessions, Tokens
from lakehand.core.pages import Page
from lakehand.domain.actions import Action
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertMessage, AlertRules, Severity
from lakehand.domain.events import Event, StoredEvent
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
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import (
    Attempt,
    AttemptEnd,
    Handle,
    InstanceId,
    LeaseToken,
    NewOperation,
    Operation,
    OperationId,
    Status,
)
from lakehand.domain.processes import Instant, Json
from lakehand.domain.rules import DispatchQueue
from lakehand.domain.schedules import EvaluationResult, Schedule
from lakehand.domain.tables import Format, Table, TableChanges, TableId, TableSpec
from lakehand.spi.factories import ProcessTriggerStrategy


class Clock(Protocol):
    def now(self) -> datetime:
        """The database's time, in UTC: all instances agree on it."""

    def estimate(self) -> datetime:
        """The last reading plus the time since then; read anew after a while. For records, never for leases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """One action of one format as a factory does it."""

    format: str
    action: str
    interval: timedelta | None = None
    on_new_snapshot: bool = True
    parallelism: int = 0
    dry_run: bool = False
    is_used: bool = True  # False: another factory has a higher priority for it


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin as people see it."""

    kind: str  # "process-factory", "table-format", "engine"
    name: str
    distribution: str
    version: str
    state: str  # "on", "off", "broken"; of one that is on: "failing", "slow", "stuck"
    reason: str = ""
    priority: int = 0
    pairs: Mapping[str, list[str]] = field(default_factory=dict)  # format → actions
    strategies: tuple[PairReport, ...] = ()
    errors: int = 0  # since this process started
    hangs: int = 0  # calls that were abandoned because they missed their deadline
    last_error: str = ""
    last_error_at: datetime | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFilter:
    table: TableId | None = None
    location: str | None = None
    action: Action | None = None
    statuses: Collection[Status] = ()
    owner: str | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnd:
    """How and when an operation ended. Small, since a page shows hundreds of them."""

    id: OperationId
    action: Action
    status: Status
    finished_at: datetime
    result: Mapping[str, Json]


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

    def list(self, filter: TableFilter, *, limit: int, cursor: str | None) -> Page[Table]: ...

    def add(self, spec: TableSpec, *, now: datetime) -> tuple[Table, bool]:
        """Register, or revive a removed one, or find the registered one unchanged. True when it was not there before.

        Its schedules are made, due at once. Raises Conflict when another location has that (db_name, table_name).
        """

    def change(self, id: TableId, changes: TableChanges, *, now: datetime) -> Table:
        """Schedules follow the action types; added ones are due at once."""

    def remove(self, id: TableId, *, now: datetime) -> None:
        """Remove the table and its schedules, but keep its history."""


class Operations(Protocol):
    def get(self, id: OperationId) -> Operation: ...

    def find(self, table: TableId, instant: Instant) -> Operation | None: ...

    def by_ids(self, ids: Collection[OperationId]) -> Sequence[Operation]:
        """In no order; those that are not there are left out."""

    def list(self, filter: OperationFilter, *, limit: int, cursor: str | None) -> Page[Operation]:
        """Newest first."""

    def of_table(self, table: TableId, *, recent: int, waiting: int = 1000) -> Sequence[Operation]:
        """Live operations, the ``waiting`` oldest pending and the ``recent`` newest finished ones, newest first."""

    def ends(self, table: TableId, *, limit: int) -> Sequence[OperationEnd]:
        """The newest finished operations, newest first."""

    def unfinished(self, table: TableId) -> Mapping[str, int]:
        """How many operations of each action are not finished."""

    def end_waiting(self, table: TableId, *, now: datetime, reason: str, limit: int) -> Sequence[OperationId]:
        """Cancel and delete up to ``limit`` pending operations without a lease, in one transaction. Returns them."""

    def add(self, new: NewOperation, *, now: datetime, event: Event | None = None) -> tuple[Operation, bool]:
        """Store it, or find the one that has this (table, instant). True when it was stored. The event comes along."""

    def dispatch_queue(self, *, now: datetime, limit: int) -> DispatchQueue:
        """The candidates for dispatch, and every live operation over all instances.

        Candidates are pending, due and unleased operations of tables that are not paused or removed: the best by
        priority and age, at most a few per table and conflict class, so that one table with a thousand plans hides
        no other.
        """

    def claim(
        self, operation: Operation, *, holder: InstanceId, time_to_live: timedelta, now: datetime | None = None,
        dispatch_slots: Collection[str] = (),
    ) -> Operation | None:  # fmt: skip
        """Take the lease of a pending operation and its table's slot, in one compare-and-set. None when a rival won.

        The lease begins at the database's time in this transaction, unless ``now`` is given.

        The status stays PENDING; the row leaves the queue while the lease lasts. Where dispatch slots are named, it
        also takes a free one of them and keeps it as long as its table's slot: no two operations have the same one.
        """

    def save(
        self, operation: Operation, *, now: datetime, attempt: Attempt | None = None, ended: AttemptEnd | None = None,
        event: Event | None = None, release: bool = False, wake: bool = False, health: HealthPoint | None = None,
    ) -> Operation:  # fmt: skip
        """Write the row, its attempt (one row per handle) and an event in one transaction, fenced by the lease's token.

        ``ended`` ends the attempt with that handle. ``release`` gives the lease and the slot back; a final row always
        does. ``wake`` wakes all schedules of its table. ``health``: a point to store. The schedule of its action knows
        an operation that FAILED, until one of them succeeds. Raises LeaseLost. ``cancel_requested`` and ``is_deleted``
        belong to others and are not written here; a row that is released although its cancellation was requested
        ends right here, since no holder would see the request. Returns the row as stored.
        """

    def renew(
        self, leases: Mapping[OperationId, LeaseToken], *, now: datetime, time_to_live: timedelta
    ) -> Collection[OperationId]:
        """Prolong leases that are still ours. Returns the ids that were not lost."""

    def held(self, holder: InstanceId) -> Sequence[Operation]:
        """Operations whose lease this instance holds, by the row; it may have run out."""

    def late(self, *, now: datetime, margin: timedelta, limit: int) -> Sequence[Operation]:
        """Leased operations whose lease ended more than the margin ago, the latest first."""

    def take_over(
        self, operation: Operation, *, holder: InstanceId, now: datetime, time_to_live: timedelta
    ) -> Operation | None:
        """Take the lease from the holder that ``operation`` shows (its token is repeated), with a fresh token."""

    def request_cancel(self, id: OperationId, *, now: datetime, event: Event, delete: bool = False) -> Operation:
        """Request the cancellation of an operation. Without a lease it ends at once; else the holder sees a flag.

        ``delete`` marks it as removed from the service too (RFC-43's is_deleted). A finished one stays as it is, but
        its schedule forgets that it failed.
        """

    def reopen(self, operation: Operation, *, now: datetime, event: Event) -> Operation:
        """Store ``operation.reopened()``; raises Conflict when the row has moved meanwhile."""

    def attempts(self, id: OperationId) -> Sequence[Attempt]: ...

    def queue_depth(self, *, now: datetime) -> Mapping[str, tuple[int, datetime | None]]:
        """Per queue: how many pending operations, and since when the oldest is due. Paused tables do not count."""

    def remove_finished(self, *, before: datetime, limit: int) -> int:
        """Delete finished operations (with attempts and events) that ended before; never an unfinished one."""


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


class Probes(Protocol):
    """When each table is probed for changes, once for all of its actions."""

    def claim_due(self, *, now: datetime, time_to_live: timedelta, limit: int) -> Sequence[DueProbe]:
        """Claim the most overdue tables that are neither paused nor removed, for the time to live."""

    def finish(
        self, next_due: Mapping[TableId, datetime], tokens: Mapping[TableId, str], *, now: datetime,
        woken: Collection[tuple[TableId, Action]] = (), results: Sequence[EvaluationResult] = (),
        problems: Mapping[TableId, str] | None = None, health: Mapping[TableId, HealthPoint] | None = None,
    ) -> None:  # fmt: skip
        """Store when probed tables are due again, the tokens of changed ones, and wake these schedules.

        All in one transaction: a crash cannot store a token and lose the wake-up. Not fenced: of two instances that
        probed a table, each wakes the schedules for the change that it saw. ``results``: as for ``Schedules.finish``.

        ``problems``: why probed tables could not be read; the first time is kept while a problem lasts, and a table
        of ``next_due`` without one has none any more. ``health``: points to store, of whichever tables.
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


class Inbox(Protocol):
    def store(self, rows: Sequence[InboxRow], events: Sequence[Event], *, now: datetime) -> Sequence[TableId]:
        """Store a batch, and events that belong to no table, in one transaction; durable when it returns."""


class Events(Protocol):
    def add(self, events: Sequence[Event], *, now: datetime) -> None: ...

    def list(
        self, *, table: TableId | None = None, operation: OperationId | None = None, kind: str | None = None,
        limit: int = 100, cursor: str | None = None,
    ) -> Page[StoredEvent]:  # fmt: skip
        """Newest first. ``kind`` matches a whole kind or a prefix that ends in a dot."""

    def after(self, id: int, *, limit: int) -> Sequence[StoredEvent]:
        """Those with a higher id, lowest first. An id that is given out earlier may become visible later."""

    def by_ids(self, ids: Collection[int]) -> Sequence[StoredEvent]:
        """Lowest id first; ids without an event are left out."""

    def last_id(self) -> int:
        """The highest id that is visible; 0 without events."""

    def remove_before(self, before: datetime, *, limit: int) -> int: ...


class HealthHistory(Protocol):
    """The points that ``Probes.finish`` and ``Operations.save`` wrote, a few hundred for each table at most."""

    def of_table(self, table: TableId, since: datetime | None = None) -> Sequence[HealthPoint]:
        """Oldest first, the sparser the older."""

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
    def heartbeat(
        self, id: InstanceId, *, host: str, version: str, detail: Mapping[str, Json], now: datetime
    ) -> None: ...

    def list(self) -> Sequence[Instance]: ...

    def remove_before(self, before: datetime) -> int: ...


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
    lost_leases: Sequence[LostLease] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsChanged:
    """How many alerts this transaction changed; those that a rival changed first do not count."""

    opened: int = 0
    resolved: int = 0


class Alerts(Protocol):
    """Alerts, and the outbox of their messages: both are written in one transaction."""

    def troubles(
        self, *, unreadable_since: datetime, unknown_since: datetime, lost_since: datetime, limit: int
    ) -> Troubles:
        """Failed and unreadable tables that are served, operations that are UNKNOWN, leases that were lost."""

    def open_alerts(self) -> Sequence[Alert]: ...

    def get(self, id: AlertId) -> Alert: ...

    def list(self, *, only_open: bool, limit: int, cursor: str | None) -> Page[Alert]:
        """Newest first."""

    def counts(self) -> Mapping[Severity, int]:
        """Open alerts, also of severities that have none."""

    def change(self, changes: AlertChanges, rules: AlertRules, *, read_at: datetime, now: datetime) -> AlertsChanged:
        """Open, refresh, resolve and remind, with messages and events. Of several instances one wins each change.

        A cause is not opened if it was resolved since ``read_at``, when the open alerts were read. A receiver that
        was told of an alert is told when it is over; beyond the bound of the rules, causes are one summary.
        """

    def silence(self, id: AlertId, *, until: datetime, now: datetime, event: Event) -> Alert:
        """No reminder until then, and messages that were not sent yet wait."""

    def due_receivers(self, *, now: datetime) -> Sequence[str]:
        """Receivers that have messages to claim."""

    def claim(
        self, receiver: str, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int
    ) -> Sequence[AlertMessage]:
        """Lease messages that are due, oldest first; of one alert none before the earlier ones have ended."""

    def finish(self, message: AlertMessage, *, now: datetime) -> bool:
        """It was sent. False if the lease was lost."""

    def postpone(self, message: AlertMessage, *, error: str, due: datetime | None, now: datetime) -> bool:
        """It was not sent, and is due again later; without a time it is given up. False if the lease was lost."""

    def release(self, holder: InstanceId) -> int:
        """End the leases that a former process of this instance left. Returns how many."""

    def remove_before(self, before: datetime, *, limit: int) -> int:
        """Delete alerts that were resolved before, with their messages; not while these are still to be sent."""


class Store(Protocol):
    """All of the above over one database."""

    clock: Clock
    tables: Tables
    operations: Operations
    probes: Probes
    schedules: Schedules
    inbox: Inbox
    events: Events
    states: States
    instances: Instances
    health: HealthHistory
    fleet: Fleet
    alerts: Alerts
    tokens: Tokens
    sessions: Sessions
    audit: Audit

    def problem(self) -> str:
        """Why nothing can be stored right now; empty while writes work, as far as is known."""

    def close(self) -> None:
        """Give all connections back."""


class Metrics(Protocol):
    """Counted by the loops and the API, never by the rules."""

    def scheduled(self, action: str, delay: timedelta) -> None:
        """Became due → pending."""

    def submitted(self, action: str, delay: timedelta) -> None:
        """Pending → accepted by an engine."""

    def finished(self, operation: Operation, format: Format, run_time: timedelta) -> None:
        """An operation on a table of this format has ended."""

    def attempt_failed(self, action: str, reason: str) -> None: ...

    def lease_lost(self, action: str) -> None: ...

    def probed(self, tables: int, changed: int) -> None: ...

    def loop(self, name: str, seconds: float, failed: bool) -> None: ...

    def queue(self, depth: Mapping[str, tuple[int, float]]) -> None:
        """Per queue: depth, and the age of the oldest in seconds."""

    def engine(self, name: str, up: bool, restarts: int) -> None: ...

    def plugins(self, reports: Sequence[PluginReport]) -> None:
        """Every plugin as it is now."""

    def alerts(self, open: Mapping[str, int]) -> None:
        """Open alerts by severity."""

    def receivers(self, names: Iterable[str]) -> None:
        """All receivers of alerts: what becomes of their messages is counted from zero."""

    def alert_message(self, receiver: str, outcome: str) -> None:
        """One message was "sent", has "failed" and is sent again, or was "given-up"."""

    def tables(self, states: Mapping[str, int]) -> None:
        """How many tables are in each state, also those without tables."""

    def database(self, seconds: float, *, is_up: bool) -> None:
        """How long a small query took, and whether the database accepts reads and writes."""

    def disk(self, free: float) -> None:
        """The free share of the disk with our home, from 0 to 1."""


class IdSource(Protocol):
    def handle(self, operation: Operation) -> Handle:
        """A fresh, never repeated handle for the next attempt of an operation."""

    def random(self) -> float:
        """A number in [0, 1), for jitter."""
