# SPDX-License-Identifier: Apache-2.0
"""Answers about operations."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.api.events import EventAnswer
from lakehand.api.fields import Answer, Document, Moment, about, answer
from lakehand.api.tables import TableName, table_name
from lakehand.domain.operations import Status
from lakehand.domain.processes import Remedy

if TYPE_CHECKING:
    from lakehand.domain.operations import Operation
    from lakehand.domain.tables import Table

FINAL = frozenset(status for status in Status if status.is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationAnswer(Answer):
    id: int
    table: TableName
    instant: str
    action: str
    status: Status
    attempts: int = field(metadata=about("How many attempts were started."))
    created_at: Moment
    finished_at: Moment | None
    reason: str = field(metadata=about("Why it has this status."))
    queue: str
    owner: str
    priority: int
    engine: str
    origin: str = field(metadata=about("Who asked for it."))
    updated_at: Moment
    submitted_at: Moment | None
    started_at: Moment | None
    next_try: Moment | None = field(metadata=about("When a pending operation may start; null if it is not pending."))
    cancel_requested: bool
    is_deleted: bool
    progress: Document

    @property
    def is_final(self) -> bool:
        return self.status in FINAL  # in a client, the word of a newer service is text


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureAnswer(Answer):
    reason: str
    message: str
    remedy: Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAnswer(Answer):
    number: int
    handle: str
    engine: str
    instance: str
    started_at: Moment
    finished_at: Moment | None
    outcome: str
    failure: FailureAnswer | None
    result: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetailAnswer(OperationAnswer):
    parameters: Document
    job: str
    result: Document
    failure: FailureAnswer | None
    attempt_list: list[AttemptAnswer]
    events: list[EventAnswer]


def operation_answer(operation: "Operation", table: "Table") -> OperationAnswer:
    next_try = operation.not_before if operation.status is Status.PENDING else None
    return answer(
        OperationAnswer, operation.process, operation, table=table_name(table), attempts=operation.run_times,
        next_try=next_try, progress=dict(operation.progress),
    )  # fmt: skip
