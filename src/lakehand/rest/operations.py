# SPDX-License-Identifier: Apache-2.0
"""Routes of operations (list, show, submit, change, cancel, retry, remove, logs), and of plans, for writers."""

from typing import Annotated

from fastapi import APIRouter, Response

from lakehand.api.fields import PageAnswer
from lakehand.api.operations import (
    ChangedOperation,
    LogQuery,
    LogsAnswer,
    OperationAnswer,
    OperationDetailAnswer,
    OperationQuery,
    OperationRequest,
    detail_answer,
    operation_answer,
)
from lakehand.api.writers import PlanRemoval, PlansAnswer, PlansRequest, plans_answer
from lakehand.domain.operations import OperationId
from lakehand.rest.dependencies import Caller, Context, PathId, Writer, from_query

router = APIRouter(prefix="/api/v1/operations", tags=["operations"])
plans = APIRouter(prefix="/api/v1/plans", tags=["plans"])


@router.get("")
def list_operations(
    query: Annotated[OperationQuery, from_query(OperationQuery)], context: Context, _caller: Caller
) -> PageAnswer[OperationAnswer]:
    """Operations that match every given filter, newest first. `status` takes several, separated by commas."""
    page = context.services.operations.list(query)
    return PageAnswer(items=[operation_answer(*pair) for pair in page.items], next=page.next)


@router.post("", status_code=201, responses={200: {"model": OperationAnswer, "description": "Stored already."}})
def submit_operation(new: OperationRequest, context: Context, caller: Caller, response: Response) -> OperationAnswer:
    """Submit an operation. The same table and instant again is the same operation, answered with 200.

    What it says otherwise changes the operation while it waits.
    """
    operation, table, is_new = context.services.operations.submit(caller, new)
    response.status_code = 201 if is_new else 200
    return operation_answer(operation, table)


@router.get("/{id}")
def show_operation(id: PathId, context: Context, _caller: Caller) -> OperationDetailAnswer:
    """One operation with its attempts and events."""
    found = context.services.operations.show(OperationId(id))
    return detail_answer(found.operation, found.table, found.attempts, found.events)


@router.patch("/{id}")
def change_operation(id: PathId, changed: ChangedOperation, context: Context, caller: Caller) -> OperationAnswer:
    """Move an operation that waits to another priority, queue or owner. It follows its table no more in that."""
    return operation_answer(*context.services.operations.change(caller, OperationId(id), changed))


@router.post("/{id}/cancel")
def cancel_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Cancel it. A running one ends when its engine has stopped it."""
    return operation_answer(*context.services.operations.cancel(caller, OperationId(id)))


@router.post("/{id}/retry")
def retry_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Retry a failed, canceled or dropped operation, with all its attempts restored."""
    return operation_answer(*context.services.operations.retry(caller, OperationId(id)))


@router.delete("/{id}")
def remove_operation(id: PathId, context: Context, caller: Caller) -> OperationAnswer:
    """Remove it from the service; a running one is canceled first."""
    return operation_answer(*context.services.operations.cancel(caller, OperationId(id), delete=True))


@router.get("/{id}/logs")
def read_logs(
    id: PathId, query: Annotated[LogQuery, from_query(LogQuery)], context: Context, _caller: Caller
) -> LogsAnswer:
    """The log of an attempt so far; repeat with `next_offset` to follow it."""
    return context.services.operations.logs(OperationId(id), query)


@plans.post("")
def submit_plans(wanted: PlansRequest, context: Context, writer: Writer) -> PlansAnswer:
    """Submit plans that a table has. The same plan again is the same operation; what it says otherwise changes it."""
    return plans_answer(*context.services.operations.submit_plans(writer, wanted))


@plans.post("/remove")
def remove_plan(wanted: PlanRemoval, context: Context, writer: Writer) -> OperationAnswer:
    """Remove the operation of a plan that was rolled back or is no longer wanted; if it runs, cancel it."""
    return operation_answer(*context.services.operations.remove_plan(writer, wanted))
