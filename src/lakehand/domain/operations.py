# SPDX-License-Identifier: Apache-2.0
"""An operation: one process in the service's care, and the statuses it may pass through."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NewType
from urllib.parse import urlsplit

from lakehand.domain.actions import Action
from lakehand.domain.errors import IllegalStep
from lakehand.domain.masks import HIDDEN, Masks, secrets_in_address
from lakehand.domain.processes import Failure, Instant, Json, TableProcess
from lakehand.domain.tables import TableId
from lakehand.domain.texts import Word

OperationId = NewType("OperationId", int)
InstanceId = NewType("InstanceId", str)
LeaseToken = NewType("LeaseToken", str)
Handle = NewType("Handle", str)
FOLLOWED = ("priority", "queue", "owner")  # of its table, as long as it waits, unless its request set its own
INSTANCE_STATE = "state"  # the key in what an instance reports of itself
LONGEST_EXTERNAL_ID, LONGEST_LINK = 250, 1000


class Status(Word):
    PENDING = "pending"  # stored; no engine has it yet
    SUBMITTED = "submitted"  # an engine is being given, or was given, our handle
    RUNNING = "running"  # as the engine reports
    CANCELING = "canceling"  # someone asked to stop it; the engine has not confirmed
    UNKNOWN = "unknown"  # the engine does not know; the table decides
    SUCCEEDED = "succeeded"  # the table shows the effect
    FAILED = "failed"  # no attempts left, or a retry cannot help
    CANCELED = "canceled"  # stopped by someone
    DROPPED = "dropped"  # the plan is gone, or someone else finished it

    @property
    def is_final(self) -> bool:
        return not NEXT[self]

    @property
    def is_live(self) -> bool:
        """An engine may be working on it: it holds its table's slot and a lease."""
        return self in LIVE


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DROPPED})
LIVE = frozenset({Status.SUBMITTED, Status.RUNNING, Status.CANCELING, Status.UNKNOWN})
UNFINISHED = LIVE | {Status.PENDING}
MOST_UNFINISHED = 100  # operations of one table that requests may leave unfinished; the rest is found in the table

NEXT: Mapping[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.SUBMITTED, Status.FAILED, Status.CANCELED, Status.DROPPED}),
    Status.SUBMITTED: FINAL | {Status.RUNNING, Status.CANCELING, Status.UNKNOWN, Status.PENDING},
    Status.RUNNING: FINAL | {Status.CANCELING, Status.UNKNOWN, Status.PENDING},
    Status.CANCELING: FINAL | {Status.UNKNOWN},
    Status.UNKNOWN: FINAL | {Status.RUNNING, Status.CANCELING, Status.PENDING},
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELED: frozenset(),
    Status.DROPPED: frozenset(),
}

REOPENABLE = frozenset({Status.FAILED, Status.CANCELED, Status.DROPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one instance to move one row, until a time, with a token that every later write repeats."""

    holder: InstanceId
    token: LeaseToken
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    """An operation as it is stored the first time. (table, instant) makes it unique."""

    table: TableId
    instant: Instant
    process: TableProcess
    priority: int | None = None  # None: that of its table; so with all that are FOLLOWED
    queue: str | None = None
    owner: str | None = None
    origin: str = "coordinator"  # who asked: coordinator, wire, api
    retry_on_error: bool | None = None  # None: true; in a repeat: as it is
    wanted_engine: str | None = None  # None: the service chooses
    due_at: datetime | None = None  # when it became due; None: now


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationChanges:
    """Changes to an operation that waits; None leaves a value as it is."""

    priority: int | None = None
    queue: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One process that the service runs."""

    id: OperationId
    table: TableId
    instant: Instant
    process: TableProcess
    status: Status = Status.PENDING
    priority: int = 0
    queue: str = "default"
    owner: str = "default"
    origin: str = "coordinator"
    retry_on_error: bool = True  # False: the first failed attempt is the last one
    wanted_engine: str | None = None  # that its request asked for; None: the service chooses
    run_times: int = 0  # attempts started so far
    deferrals: int = 0  # "not yet" answers so far; they use up no attempt
    not_before: datetime  # no attempt earlier than this
    lease: Lease | None = None
    handle: Handle | None = None  # the engine's name of the current or last attempt
    cancel_requested: bool = False
    is_deleted: bool = False
    reason: str = ""  # why it has this status
    progress: Mapping[str, Json] = field(default_factory=dict)
    result: Mapping[str, Json] = field(default_factory=dict)
    failure: Failure | None = None
    due_at: datetime
    created_at: datetime
    updated_at: datetime
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def slot(self) -> str:
        """Unique among live operations, enforced by the database."""
        return f"{self.table}:{self.process.conflict_class}"

    def waited(self, now: datetime) -> timedelta:
        """For how long its present attempt could have started; the back-off before it does not count."""
        return max(now - max(self.created_at, self.not_before), timedelta())

    @property
    def tag(self) -> str:
        """What a rewrite writes into the table's own history: unlike an id, never given twice, in any database."""
        return f"{self.id}-{self.instant}"

    def moved_to(self, status: Status, *, at: datetime, reason: str) -> "Operation":
        """The operation after a legal step; raises IllegalStep otherwise."""
        if status not in NEXT[self.status]:
            raise IllegalStep(f"operation {self.id} is {self.status}; it cannot become {status}")
        return replace(self, status=status, reason=reason, updated_at=at, finished_at=at if status.is_final else None)

    def reopened(self, *, at: datetime, reason: str) -> "Operation":
        """A finished operation that is retried, with all its attempts restored."""
        if self.status not in REOPENABLE:
            raise IllegalStep(
                f"operation {self.id} is {self.status}: only a failed, canceled or dropped one can be retried"
            )
        return replace(
            self, status=Status.PENDING, reason=reason, updated_at=at, finished_at=None, not_before=at, run_times=0,
            deferrals=0, cancel_requested=False, is_deleted=False, failure=None, handle=None,
        )  # fmt: skip


def service_instant(action: Action, now: datetime) -> Instant:
    """An instant of our own for work without a plan in the table; its shape is that of no format's instants."""
    return Instant(f"{now.strftime('%Y%m%d%H%M%S')}{now.microsecond // 1000:03d}-{action}")


def taken_off(action: Action) -> str:
    """Why an operation is dropped whose action its table does not have any more."""
    return f"{action} was taken off its table, so it must not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of an operation on an engine."""

    operation: OperationId
    number: int
    handle: Handle
    engine: str
    instance: InstanceId
    started_at: datetime
    finished_at: datetime | None = None
    outcome: str = ""  # a final status, or what sent it back to pending
    failure: Failure | None = None
    result: Mapping[str, Json] = field(default_factory=dict)
    external_id: str | None = None  # where it runs, in the words of that system: the id of a Spark application
    external_url: str | None = None  # a page about it there


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalId:
    """What an attempt is called outside of Lakehand, and the page about it there. Safe to store and to show."""

    id: str
    url: str | None = None


def external_id(id: object, url: object) -> ExternalId | None:
    """From what an engine says. None for what is no short printable id; a page that must not be linked is left out."""
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_EXTERNAL_ID or not id.isprintable():
        return None
    return ExternalId(id=id, url=url if isinstance(url, str) and may_link(url) else None)


def may_link(url: str) -> bool:
    """Whether a page may link to it: an address of the web, of bounded length, without a password or a token."""
    if len(url) > LONGEST_LINK or not (url.isascii() and url.isprintable()) or set(url) & set(' "<>'):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    return is_web and not any(secrets_in_address(url)) and Masks().hide(url) == url and HIDDEN not in url


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How the attempt with this handle ended."""

    handle: Handle
    at: datetime
    outcome: str
    failure: Failure | None = None
    result: Mapping[str, Json] = field(default_factory=dict)


class InstanceState(Word):
    SERVING = "serving"
    DRAINING = "draining"  # it claims nothing new and still holds something
    DRAINED = "drained"  # it holds nothing: it can be stopped
    STOPPED = "stopped"
