# SPDX-License-Identifier: Apache-2.0
"""Operations, their attempts, logs and events by the client's names, and the explanation of a table."""

from dataclasses import dataclass
from datetime import datetime

from lakehand.api.events import EventAnswer
from lakehand.api.fields import Answer
from lakehand.api.operations import (
    AttemptAnswer,
    ClearedAnswer,
    FailureAnswer,
    LogsAnswer,
    OperationAnswer,
    OperationDetailAnswer,
)
from lakehand.client.documents import GOOD
from lakehand.client.errors import OperationFailed
from lakehand.client.table_answers import Table

# The client's names of what the API's schemas call otherwise.
Operation = OperationAnswer
OperationDetail = OperationDetailAnswer
Attempt = AttemptAnswer
Failure = FailureAnswer
Event = EventAnswer
LogPage = LogsAnswer
Cleared = ClearedAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedOperation(Operation):
    is_new: bool  # False: it was stored already, maybe by an earlier attempt of the same call


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
