# SPDX-License-Identifier: Apache-2.0
"""Answers about operations, their attempts and events, and the explanation of a table."""

from typing import Any

from pydantic import BaseModel, Field
from typing_extensions import Self

from lakehand.core.services.explain import ActionExplanation, Explanation
from lakehand.core.services.operations import OperationDetail
from lakehand.domain.events import StoredEvent
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import Remedy
from lakehand.domain.tables import Table
from lakehand.rest.fields import Answer, Document, Moment, fields_of
from lakehand.rest.table_shapes import TableAnswer, TableName


class OperationAnswer(Answer):
    id: int
    table: TableName
    instant: str
    action: str
    status: Status
    attempts: int = Field(description="How many attempts were started.")
    created_at: Moment
    finished_at: Moment | None
    reason: str = Field(description="Why it has this status.")
    queue: str
    owner: str
    priority: int
    engine: str
    origin: str = Field(description="Who asked for it.")
    updated_at: Moment
    submitted_at: Moment | None
    started_at: Moment | None
    next_try: Moment | None = Field(description="When a pending operation may start; null if it is not pending.")
    cancel_requested: bool
    is_deleted: bool
    progress: Document

    @classmethod
    def of(cls, operation: Operation, table: Table, **more: Any) -> Self:
        own = fields_of(operation.process, operation) | more
        next_try = operation.not_before if operation.status is Status.PENDING else None
        return cls(**own | {"table": TableName.of(table), "attempts": operation.run_times, "next_try": next_try})


class FailureAnswer(Answer):
    reason: str
    message: str
    remedy: Remedy


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


class EventAnswer(Answer):
    id: int
    kind: str
    message: str
    table: int | None
    operation: int | None
    detail: Document
    at: Moment = Field(description="When it last happened.")
    first_at: Moment
    times: int

    @classmethod
    def of(cls, stored: StoredEvent) -> Self:
        return cls(**fields_of(stored.event, stored))


class OperationDetailAnswer(OperationAnswer):
    parameters: Document
    job: str
    result: Document
    failure: FailureAnswer | None
    attempt_list: list[AttemptAnswer]
    events: list[EventAnswer]

    @classmethod
    def of_detail(cls, detail: OperationDetail) -> Self:
        events = [EventAnswer.of(event) for event in detail.events]
        return cls.of(detail.operation, detail.table, attempt_list=detail.attempts, events=events)


class LogsAnswer(BaseModel):
    operation: int
    attempt: int
    engine: str
    offset: int
    next_offset: int = Field(description="Pass it as `offset` to read on.")
    text: str


class ClearedAnswer(BaseModel):
    removed: list[int] = Field(description="The operations that were removed.")


class ActionAnswer(Answer):
    action: str
    wanted: bool
    now: str = Field(description="One sentence: what runs, what waits, or why nothing is done.")
    last_look: Moment | None = Field(description="When it was last evaluated. Without a change, the last reason holds.")
    last_decision: Moment | None = Field(
        description="When the table was last read for a decision: the numbers in `now` are of that time."
    )
    last_start: Moment | None
    next_look: Moment | None
    unfinished: list[OperationAnswer]
    last_finished: OperationAnswer | None

    @classmethod
    def of(cls, explained: ActionExplanation, table: Table) -> Self:
        last = explained.last_finished
        unfinished = [OperationAnswer.of(operation, table) for operation in explained.unfinished]
        finished = OperationAnswer.of(last, table) if last else None
        return cls(**fields_of(explained) | {"unfinished": unfinished, "last_finished": finished})


class ExplanationAnswer(Answer):
    """Why something runs on a table or not, and when it is evaluated next."""

    table: TableAnswer
    summary: str
    next_look: Moment | None
    actions: list[ActionAnswer]
    events: list[EventAnswer]

    @classmethod
    def of(cls, explanation: Explanation) -> Self:
        table = explanation.table
        actions = [ActionAnswer.of(action, table) for action in explanation.actions]
        events = [EventAnswer.of(event) for event in explanation.events]
        own = {"table": TableAnswer.of(table), "actions": actions, "events": events}
        return cls(**fields_of(explanation) | own)
