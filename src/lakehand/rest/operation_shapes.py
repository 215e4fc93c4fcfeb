# SPDX-License-Identifier: Apache-2.0
"""Requests and answers for operations, attempts and events."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from lakehand.core.operation_service import OperationDetail
from lakehand.domain.events import StoredEvent
from lakehand.domain.operations import Attempt, Operation, Status
from lakehand.domain.processes import Remedy
from lakehand.domain.tables import Table
from lakehand.rest.fields import ActionName, Document, Id, Location, Moment, Name
from lakehand.rest.parameters import Options
from lakehand.rest.table_shapes import TableName


class OperationRequest(BaseModel):
    """Work to do now. With an instant: run that plan. Without one: plan and run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"table": 1, "action": "compaction", "instant": "20261115191013982"},
                {"location": "/data/trips", "action": "clustering"},
                {"location": "/data/orders", "action": "vacuum", "dry_run": True},
            ]
        },
    )

    table: Id | None = Field(default=None, description="The table's id; or give its location.")
    location: Location | None = None
    action: ActionName
    instant: Name | None = Field(default=None, description="The plan's own time in the table: 14 or 17 digits.")
    options: Options = Field(default={}, description="Format options from a list of allowed ones.")
    dry_run: bool = Field(default=False, description="Only list what would be deleted, if the action supports it.")
    confirm: bool = Field(
        default=False, description="Run it even if the job finds it implausible. Recorded with the caller's name."
    )


class OperationAnswer(BaseModel):
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
    def of(cls, operation: Operation, table: Table) -> "OperationAnswer":
        return cls(**operation_fields(operation, table))


class FailureAnswer(BaseModel):
    reason: str
    message: str
    remedy: Remedy


class AttemptAnswer(BaseModel):
    number: int
    handle: str
    engine: str
    instance: str
    started_at: Moment
    finished_at: Moment | None
    outcome: str
    failure: FailureAnswer | None
    result: Document

    @classmethod
    def of(cls, attempt: Attempt) -> "AttemptAnswer":
        return cls.model_validate(attempt, from_attributes=True)


class EventAnswer(BaseModel):
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
    def of(cls, stored: StoredEvent) -> "EventAnswer":
        event = stored.event
        return cls(
            id=stored.id,
            kind=event.kind,
            message=event.message,
            table=event.table,
            operation=event.operation,
            detail=dict(event.detail),
            at=stored.at,
            first_at=stored.first_at,
            times=stored.times,
        )


class OperationDetailAnswer(OperationAnswer):
    parameters: Document
    job: str
    result: Document
    failure: FailureAnswer | None
    attempt_list: list[AttemptAnswer]
    events: list[EventAnswer]

    @classmethod
    def of_detail(cls, detail: OperationDetail) -> "OperationDetailAnswer":
        operation, failure = detail.operation, detail.operation.failure
        return cls(
            **operation_fields(operation, detail.table),
            parameters=dict(operation.process.parameters),
            job=operation.process.job,
            result=dict(operation.result),
            failure=FailureAnswer.model_validate(failure, from_attributes=True) if failure else None,
            attempt_list=[AttemptAnswer.of(attempt) for attempt in detail.attempts],
            events=[EventAnswer.of(event) for event in detail.events],
        )


class LogsAnswer(BaseModel):
    operation: int
    attempt: int
    engine: str
    offset: int
    next_offset: int = Field(description="Pass it as `offset` to read on.")
    text: str


class ClearedAnswer(BaseModel):
    removed: list[int] = Field(description="The operations that were removed.")


def operation_fields(operation: Operation, table: Table) -> dict[str, Any]:
    return {
        "id": operation.id,
        "table": TableName.of(table),
        "instant": operation.instant,
        "action": operation.process.action,
        "status": operation.status,
        "attempts": operation.run_times,
        "created_at": operation.created_at,
        "finished_at": operation.finished_at,
        "reason": operation.reason,
        "queue": operation.queue,
        "owner": operation.owner,
        "priority": operation.priority,
        "engine": operation.process.engine,
        "origin": operation.origin,
        "updated_at": operation.updated_at,
        "submitted_at": operation.submitted_at,
        "started_at": operation.started_at,
        "next_try": operation.not_before if operation.status is Status.PENDING else None,
        "cancel_requested": operation.cancel_requested,
        "is_deleted": operation.is_deleted,
        "progress": dict(operation.progress),
    }
