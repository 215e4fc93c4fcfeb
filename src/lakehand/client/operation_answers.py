# SPDX-License-Identifier: Apache-2.0
"""Operations, their attempts, logs and events by the client's names, and the explanation of a table."""

from dataclasses import dataclass

from lakehand.api.events import EventAnswer
from lakehand.api.explain import ActionAnswer, ExplanationAnswer
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

# The client's names of what the API's schemas call otherwise.
Operation = OperationAnswer
OperationDetail = OperationDetailAnswer
Attempt = AttemptAnswer
Failure = FailureAnswer
Event = EventAnswer
LogPage = LogsAnswer
Cleared = ClearedAnswer
ActionExplanation = ActionAnswer
Explanation = ExplanationAnswer


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
