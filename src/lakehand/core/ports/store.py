# SPDX-License-Identifier: Apache-2.0
"""The store: every port that is kept in the database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakehand.core.ports.operations import Events, Inbox, Operations
from lakehand.core.ports.tables import Fleet, HealthHistory, Partitions, Probes, Schedules, States, Tables, Troubles
from lakehand.core.ports.world import Clock, Page
from lakehand.domain.access import AuditAnswer, AuditEntry, AuditId, AuditRequest, NewToken, Token, TokenId, WebSession
from lakehand.domain.alerts import Alert, AlertChanges, AlertId, AlertMessage, AlertRules, Severity
from lakehand.domain.events import Event
from lakehand.domain.operations import INSTANCE_STATE, InstanceId, OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import TableId


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
