# SPDX-License-Identifier: Apache-2.0
"""Operations: what the API says of one; list, show, submit, cancel, retry, remove, logs."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field
from typing_extensions import Self

from lakehand.api.tables import TableName, table_name
from lakehand.core.ports import OperationFilter
from lakehand.core.services.operations import OperationDetail
from lakehand.domain.actions import Action
from lakehand.domain.events import StoredEvent
from lakehand.domain.operations import Operation, OperationId, Status
from lakehand.domain.processes import Remedy
from lakehand.domain.tables import Table
from lakehand.inputs.operations import LogQuery, OperationQuery, OperationRequest, named_table, read_statuses
from lakehand.inputs.parameters import check_options, read_instant
from lakehand.rest.access import Caller, Context
from lakehand.rest.context import ApiContext
from lakehand.rest.fields import Answer, Document, Moment, PageAnswer, PathId, fields_of

router = APIRouter(prefix="/api/v1/operations", tags=["operations"])


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
        return cls(**own | {"table": table_name(table), "attempts": operation.run_times, "next_try": next_try})


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


@router.get("")
def list_operations(
    query: Annotated[OperationQuery, Query()], context: Context, _caller: Caller
) -> PageAnswer[OperationAnswer]:
    """Operations that match every given filter, newest first. `status` takes several, separated by commas."""
    filters = query.filters() | {"action": Action(query.action) if query.action else None}
    statuses = read_statuses(filters.pop("status") or "")
    wanted = OperationFilter(**filters, statuses=statuses)
    page = context.services.operations.list(wanted, limit=query.limit, cursor=query.cursor)
    return PageAnswer(items=[OperationAnswer.of(*pair) for pair in page.items], next=page.next)


@router.post("", status_code=201, responses={200: {"model": OperationAnswer, "description": "Stored already."}})
def submit_operation(new: OperationRequest, context: Context, caller: Caller, response: Response) -> OperationAnswer:
    """Submit an operation. The same table and instant again is the same operation, answered with 200."""
    table, rules = named_table(new, context.services.tables), context.intake.rules
    instant = read_instant(new.instant, rules) if new.instant else None
    options = {"options": dict(check_options(new.options, rules))} if new.options else {}
    operation, is_new = context.services.requests.operations.submit(
        caller, table, Action(new.action), instant=instant, parameters=options,
        dry_run=new.dry_run, confirm=new.confirm, verify_rows=new.verify_rows,
    )  # fmt: skip
    response.status_code = 201 if is_new else 200
    return OperationAnswer.of(operation, table)


@router.get("/{id}")
def show_operation(id: PathId, context: Context, _caller: Caller) -> OperationDetailAnswer:
    """One operation with its attempts and events."""
    return OperationDetailAnswer.of_detail(context.services.operations.show(OperationId(id)))


@router.post("/{id}/cancel")
def cancel_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Cancel it. A running one ends when its engine has stopped it."""
    return answer_of(context, context.services.requests.operations.cancel(caller, OperationId(id)))


@router.post("/{id}/retry")
def retry_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Retry a failed, canceled or dropped operation, with all its attempts restored."""
    return answer_of(context, context.services.requests.operations.retry(caller, OperationId(id)))


@router.delete("/{id}")
def remove_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Remove it from the service; a running one is canceled first."""
    return answer_of(context, context.services.requests.operations.cancel(caller, OperationId(id), delete=True))


@router.get("/{id}/logs")
def read_logs(id: PathId, query: Annotated[LogQuery, Query()], context: Context, _caller: Caller) -> LogsAnswer:
    """The log of an attempt so far; repeat with `next_offset` to follow it."""
    chosen, text = context.services.operations.logs(OperationId(id), **query.model_dump())
    end = query.offset + len(text.encode("utf-8", "replace"))
    return LogsAnswer(
        operation=id, attempt=chosen.number, engine=chosen.engine, offset=query.offset, next_offset=end, text=text
    )


def answer_of(context: ApiContext, operation: Operation) -> OperationAnswer:
    return OperationAnswer.of(operation, context.services.operations.show(operation.id).table)
