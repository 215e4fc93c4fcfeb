# SPDX-License-Identifier: Apache-2.0
"""Operations: list, show, submit, cancel, retry, remove, logs, watch."""

from lakehand.core.ports import OperationFilter
from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation, OperationId
from lakehand.inputs.operations import LogQuery, OperationQuery, OperationRequest, named_table, read_statuses
from lakehand.inputs.parameters import check_options, read_instant
from lakehand.rpc.context import Call
from lakehand.rpc.generated import operation_pb2
from lakehand.rpc.generated import operations_pb2 as pb
from lakehand.rpc.messages import fill, given, id_of, read
from lakehand.rpc.shapes import event_message, operation_message
from lakehand.rpc.watch_operations import watch_operations

__all__ = ["watch_operations"]


def list_operations(call: Call, request: pb.ListOperationsRequest) -> pb.ListOperationsResponse:
    query = read(OperationQuery, request, "statuses", status=",".join(given(request).get("statuses", [])) or None)
    filters = query.filters() | {"action": Action(query.action) if query.action else None}
    statuses = read_statuses(filters.pop("status") or "")
    wanted = OperationFilter(**filters, statuses=statuses)
    page = call.context.operations.list(wanted, limit=query.limit, cursor=query.cursor)
    operations = [operation_message(*pair) for pair in page.items]
    return pb.ListOperationsResponse(operations=operations, next_page_token=page.next or "")


def submit_operation(call: Call, request: pb.SubmitOperationRequest) -> pb.SubmitOperationResponse:
    new, rules = read(OperationRequest, request), call.context.rules
    table = named_table(new, call.context.tables)
    instant = read_instant(new.instant, rules) if new.instant else None
    options = {"options": dict(check_options(new.options, rules))} if new.options else {}
    operation, is_new = call.context.requests.operations.submit(
        call.caller, table, Action(new.action), instant=instant, parameters=options,
        dry_run=new.dry_run, confirm=new.confirm, verify_rows=new.verify_rows,
    )  # fmt: skip
    return pb.SubmitOperationResponse(operation=operation_message(operation, table), is_new=is_new)


def get_operation(call: Call, request: pb.GetOperationRequest) -> pb.GetOperationResponse:
    found = call.context.operations.show(OperationId(id_of(request)))
    detail = fill(
        operation_pb2.OperationDetail(), found.operation.process, found.operation,
        operation=operation_message(found.operation, found.table), attempts=found.attempts,
        events=[event_message(event) for event in found.events],
    )  # fmt: skip
    return pb.GetOperationResponse(detail=detail)


def cancel_operation(call: Call, request: pb.CancelOperationRequest) -> pb.CancelOperationResponse:
    operation = call.context.requests.operations.cancel(call.caller, OperationId(id_of(request)))
    return pb.CancelOperationResponse(operation=shown(call, operation))


def retry_operation(call: Call, request: pb.RetryOperationRequest) -> pb.RetryOperationResponse:
    operation = call.context.requests.operations.retry(call.caller, OperationId(id_of(request)))
    return pb.RetryOperationResponse(operation=shown(call, operation))


def remove_operation(call: Call, request: pb.RemoveOperationRequest) -> pb.RemoveOperationResponse:
    operation = call.context.requests.operations.cancel(call.caller, OperationId(id_of(request)), delete=True)
    return pb.RemoveOperationResponse(operation=shown(call, operation))


def shown(call: Call, operation: Operation) -> operation_pb2.Operation:
    return operation_message(operation, call.context.store.tables.get(operation.table))


def read_logs(call: Call, request: pb.ReadLogsRequest) -> pb.ReadLogsResponse:
    operation, query = OperationId(id_of(request)), read(LogQuery, request, "id")
    chosen, text = call.context.operations.logs(operation, **query.model_dump())
    end = query.offset + len(text.encode("utf-8", "replace"))
    return fill(
        pb.ReadLogsResponse(), operation=operation, attempt=chosen.number, engine=chosen.engine, offset=query.offset,
        next_offset=end, text=text,
    )  # fmt: skip
