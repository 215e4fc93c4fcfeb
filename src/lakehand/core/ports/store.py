# SPDX-License-Identifier: Apache-2.0
"""The store: operations, what comes in and what happened, who may ask, alerts, instances, and the whole of it.

Tables and what belongs to them are beside it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakehand.core.ports.tables import Fleet, HealthHistory, Partitions, Probes, Schedules, States, Tables, Troubles
from lakehand.core.ports.world import Clock, Page
from lakehand.domain.access import AuditAnswer, AuditEntry, AuditId, AuditRequest, NewToken, Token, TokenId, WebSession
from lakehand.domain.actions import Action
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertMessage, AlertRules, Severity
from lakehand.domain.events import Event, StoredEvent
from lakehand.domain.health import HealthPoint
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import (
    INSTANCE_STATE,
    Attempt,
    AttemptEnd,
    ExternalId,
    InstanceId,
    LeaseToken,
    NewOperation,
    Operation,
    OperationChanges,
    OperationId,
    Status,
)
from lakehand.domain.processes import Instant, Json
from lakehand.domain.rules import Busy, Closed, DispatchQueue
from lakehand.domain.tables import TableId


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

    def dispatch_queue(
        self, *, now: datetime, limit: int, age_step: timedelta, close: Callable[[Sequence[Busy]], Closed]
    ) -> DispatchQueue:
        """The candidates for dispatch, and every live operation over all instances, which ``close`` is called with.

        Candidates are pending, due and unleased operations of tables that are not paused or removed, and that are in
        nothing that is closed: the best of them by the dispatch rules, however many others wait. Owners that have
        their share come when no other owner has a candidate.
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
        pause: str | None = None, external: ExternalId | None = None,
    ) -> Operation:  # fmt: skip
        """Write the row, its attempt (one row per handle) and an event in one transaction, fenced by the lease's token.

        ``ended`` ends the attempt with that handle. ``release`` gives the lease and the slot back; a final row always
        does. ``wake`` wakes all schedules of its table. ``health``: a point to store. ``pause``: why its table is
        paused from now on. ``external``: what its present attempt is called where it runs; None leaves that as it is.
        The schedule of its action knows an operation that FAILED, until one of them succeeds.
        Raises LeaseLost. ``cancel_requested`` and ``is_deleted`` belong to others and are not written here; a row that
        is released although its cancellation was requested ends right here, since no holder would see the request.
        Returns the row as stored.
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

        ``delete`` marks it as removed from the service too (RFC-43's is_deleted), a finished one as well, and its
        schedule forgets that it failed. Otherwise a finished one stays as it is.
        """

    def repeat(self, known: Operation, new: NewOperation, *, now: datetime, event: Event) -> Operation:
        """Change what a repeated request says otherwise, while it waits. Raises Conflict if it does not wait any more.

        The event comes along if something was changed, with the names of that.
        """

    def change(self, id: OperationId, changes: OperationChanges, *, now: datetime, event: Event) -> Operation:
        """Change a pending operation; from now on the values are its own. Raises Conflict when it is not pending."""

    def reopen(self, operation: Operation, *, now: datetime, event: Event) -> Operation:
        """Store ``operation.reopened()``; raises Conflict when the row has moved meanwhile."""

    def attempts(self, id: OperationId) -> Sequence[Attempt]: ...

    def queue_depth(self, *, now: datetime) -> Mapping[str, tuple[int, datetime | None]]:
        """Per queue: how many pending operations, and since when the oldest is due. Paused tables do not count."""

    def remove_finished(self, *, before: datetime, limit: int) -> int:
        """Delete finished operations (with attempts and events) that ended before; never an unfinished one."""


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


class Tokens(Protocol):
    """Tokens are never deleted: a service that once had one stays closed."""

    def add(self, new: NewToken, *, by: str, now: datetime) -> Token: ...

    def list(self) -> Sequence[tuple[str, Token]]:
        """All, each with the hash of its secret; oldest first."""

    def get(self, id: TokenId) -> Token:
        """Raises NotFound."""

    def revoke(self, id: TokenId, *, now: datetime) -> Token:
        """Raises NotFound. One that is revoked already stays as it is."""

    def note_use(self, ids: Collection[TokenId], *, now: datetime) -> None: ...


class Sessions(Protocol):
    def add(self, hash: str, session: WebSession, *, now: datetime) -> None: ...

    def find(self, hash: str) -> WebSession | None:
        """One that has not been ended; it may have run out."""

    def end(self, hash: str) -> None: ...

    def remove_before(self, before: datetime) -> int:
        """Delete those that ran out before. Returns how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    caller: str | None = None
    action: str | None = None  # a whole action, or a prefix that ends in a dot
    table: TableId | None = None
    operation: OperationId | None = None


class Audit(Protocol):
    """Rows are added, and removed when they are old; none is ever changed."""

    def begin(self, request: AuditRequest, *, now: datetime) -> AuditId: ...

    def finish(self, id: AuditId, answer: AuditAnswer, *, now: datetime) -> None: ...

    def list(self, wanted: AuditFilter, *, limit: int, cursor: str | None) -> Page[AuditEntry]:
        """Newest first."""

    def remove_before(self, before: datetime, *, limit: int) -> int: ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: InstanceId
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    detail: Mapping[str, Json]

    @property
    def state(self) -> str | None:
        """As it last reported. Versions that could not drain reported none."""
        found = self.detail.get(INSTANCE_STATE)
        return None if found is None else str(found)


class Instances(Protocol):
    def heartbeat(
        self, id: InstanceId, *, host: str, version: str, detail: Mapping[str, Json], now: datetime
    ) -> None: ...

    def list(self) -> Sequence[Instance]: ...

    def remove_before(self, before: datetime) -> int: ...


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
    partitions: Partitions
    instances: Instances
    health: HealthHistory
    fleet: Fleet
    alerts: Alerts
    tokens: Tokens
    sessions: Sessions
    audit: Audit

    def problem(self) -> str:
        """Why nothing can be stored right now; empty while writes work, as far as is known."""

    def check_writes(self) -> None:
        """Raise Unavailable unless the database takes writes now. Cheap, and changes nothing."""

    def close(self) -> None:
        """Give all connections back."""
