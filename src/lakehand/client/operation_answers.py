# SPDX-License-Identifier: Apache-2.0
"""Operations, their attempts, logs and events, and the explanation of a table."""

from dataclasses import dataclass

from lakehand.api.events import EventAnswer
from lakehand.api.explain import ActionAnswer, ExplanationAnswer
from lakehand.api.fields import Answer
from lakehand.api.operations import AttemptAnswer, FailureAnswer, OperationAnswer, OperationDetailAnswer
from lakehand.client.documents import GOOD
from lakehand.client.errors import OperationFailed

# The client's names of what the API's schemas call otherwise.
ActionExplanation = ActionAnswer
Attempt = AttemptAnswer
Event = EventAnswer
Explanation = ExplanationAnswer
Failure = FailureAnswer
Operation = OperationAnswer
OperationDetail = OperationDetailAnswer


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
