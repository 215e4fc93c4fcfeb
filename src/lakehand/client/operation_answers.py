# SPDX-License-Identifier: Apache-2.0
"""Operations, their attempts, logs and events, and the explanation of a table."""

from dataclasses import dataclass
from datetime import datetime

from lakehand.api.fields import Answer
from lakehand.api.tables import TableName
from lakehand.client.documents import FINAL, GOOD, Document
from lakehand.client.errors import OperationFailed
from lakehand.client.table_answers import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Answer):
    id: int
    table: TableName
    instant: str
    action: str
    status: str
    attempts: int  # how many were started
    created_at: datetime
    finished_at: datetime | None
    reason: str  # why it has this status
    queue: str
    owner: str
    priority: int
    engine: str
    origin: str  # who asked for it
    updated_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    next_try: datetime | None  # when a pending operation may start
    cancel_requested: bool
    is_deleted: bool
    progress: Document

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedOperation(Operation):
    is_new: bool  # False: it was stored already, maybe by an earlier attempt of the same call


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Answer):
    reason: str  # a word
    message: str
    remedy: str  # what follows: retry, wait, a person, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Answer):
    number: int
    handle: str
    engine: str
    instance: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    failure: Failure | None
    result: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Answer):
    """Something that happened. Equal problems are one event that is counted: each time, ``at`` and ``times`` change."""

    id: int
    kind: str
    message: str
    table: int | None
    operation: int | None
    detail: Document
    at: datetime  # when it last happened
    first_at: datetime
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetail(Operation):
    parameters: Document
    job: str
    result: Document
    failure: Failure | None
    attempt_list: list[Attempt]
    events: list[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """How an operation ended."""

    operation: OperationDetail

    @property
    def status(self) -> str:
        return self.operation.status

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"

    @property
    def why(self) -> str:
        """The reason of its status; if it failed, the failure's message."""
        failure = self.operation.failure
        return failure.message if failure and self.status == "failed" else self.operation.reason

    def check(self) -> OperationDetail:
        """The operation, if it succeeded or nothing was left to do (dropped); else raises OperationFailed."""
        if self.status in GOOD:
            return self.operation
        one = self.operation
        raise OperationFailed(f"operation {one.id} ({one.action} of {one.table.location}) {self.status}: {self.why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage(Answer):
    operation: int
    attempt: int
    engine: str
    offset: int
    next_offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared(Answer):
    removed: list[int]  # the operations that were removed


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionExplanation(Answer):
    action: str
    wanted: bool
    now: str  # one sentence: what runs, what waits, or why nothing is done
    last_look: datetime | None
    last_start: datetime | None
    next_look: datetime | None
    last_decision: datetime | None = None  # when the table was last read: the numbers in ``now`` are of that time
    unfinished: list[Operation]
    last_finished: Operation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Answer):
    """Why something runs on a table or not, and when it is evaluated next."""

    table: Table
    summary: str
    next_look: datetime | None
    actions: list[ActionExplanation]
    events: list[Event]
