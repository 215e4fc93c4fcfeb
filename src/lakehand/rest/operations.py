# SPDX-License-Identifier: Apache-2.0
"""Operations: what the API says of one; list, show, submit, cancel, retry, remove, logs."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from lakehand.api.events import event_answer
from lakehand.api.fields import answer
from lakehand.api.operations import (
    AttemptAnswer,
    FailureAnswer,
    OperationAnswer,
    OperationDetailAnswer,
    operation_answer,
)
from lakehand.core.ports import OperationFilter
from lakehand.core.services.operations import OperationDetail
from lakehand.domain.actions import Action
from lakehand.domain.operations import Attempt, Operation, OperationId
from lakehand.domain.processes import Failure
from lakehand.inputs.operations import LogQuery, OperationQuery, OperationRequest, named_table, read_statuses
from lakehand.inputs.parameters import check_options, read_instant
from lakehand.rest.access import Caller, Context
from lakehand.rest.context import ApiContext
from lakehand.rest.fields import PageAnswer, PathId

router = APIRouter(prefix="/api/v1/operations", tags=["operations"])


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
    page = context.operations.list(wanted, limit=query.limit, cursor=query.cursor)
    return PageAnswer(items=[operation_answer(*pair) for pair in page.items], next=page.next)


@router.post("", status_code=201, responses={200: {"model": OperationAnswer, "description": "Stored already."}})
def submit_operation(new: OperationRequest, context: Context, caller: Caller, response: Response) -> OperationAnswer:
    """Submit an operation. The same table and instant again is the same operation, answered with 200."""
    table, rules = named_table(new, context.tables), context.intake.rules
    instant = read_instant(new.instant, rules) if new.instant else None
    options = {"options": dict(check_options(new.options, rules))} if new.options else {}
    operation, is_new = context.requests.operations.submit(
        caller, table, Action(new.action), instant=instant, parameters=options,
        dry_run=new.dry_run, confirm=new.confirm, verify_rows=new.verify_rows,
    )  # fmt: skip
    response.status_code = 201 if is_new else 200
    return operation_answer(operation, table)


@router.get("/{id}")
def show_operation(id: PathId, context: Context, _caller: Caller) -> OperationDetailAnswer:
    """One operation with its attempts and events."""
    return detail_answer(context.operations.show(OperationId(id)))


@router.post("/{id}/cancel")
def cancel_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Cancel it. A running one ends when its engine has stopped it."""
    return answer_of(context, context.requests.operations.cancel(caller, OperationId(id)))


@router.post("/{id}/retry")
def retry_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Retry a failed, canceled or dropped operation, with all its attempts restored."""
    return answer_of(context, context.requests.operations.retry(caller, OperationId(id)))


@router.delete("/{id}")
def remove_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Remove it from the service; a running one is canceled first."""
    return answer_of(context, context.requests.operations.cancel(caller, OperationId(id), delete=True))


@router.get("/{id}/logs")
def read_logs(id: PathId, query: Annotated[LogQuery, Query()], context: Context, _caller: Caller) -> LogsAnswer:
    """The log of an attempt so far; repeat with `next_offset` to follow it."""
    chosen, text = context.operations.logs(OperationId(id), **query.model_dump())
    end = query.offset + len(text.encode("utf-8", "replace"))
    return LogsAnswer(
        operation=id, attempt=chosen.number, engine=chosen.engine, offset=query.offset, next_offset=end, text=text
    )


def detail_answer(detail: OperationDetail) -> OperationDetailAnswer:
    operation, of_process = detail.operation, detail.operation.process
    return answer(
        OperationDetailAnswer, of_process, operation, operation_answer(operation, detail.table),
        attempt_list=[attempt_answer(one) for one in detail.attempts], result=dict(operation.result),
        parameters=dict(of_process.parameters), failure=failure_answer(operation.failure),
        events=[event_answer(event) for event in detail.events],
    )  # fmt: skip


def attempt_answer(attempt: Attempt) -> AttemptAnswer:
    return answer(AttemptAnswer, attempt, failure=failure_answer(attempt.failure), result=dict(attempt.result))


def failure_answer(failure: Failure | None) -> FailureAnswer | None:
    return answer(FailureAnswer, failure) if failure else None


def answer_of(context: ApiContext, operation: Operation) -> OperationAnswer:
    return operation_answer(operation, context.operations.show(operation.id).table)
