# SPDX-License-Identifier: Apache-2.0
"""Operations: list, show, submit, cancel, retry, remove, logs, watch."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from lakehand.core.ports import OperationFilter
from lakehand.domain.actions import Action
from lakehand.domain.operations import UNFINISHED, Operation, OperationId
from lakehand.domain.tables import Table, TableId
from lakehand.inputs.operations import LogQuery, OperationQuery, OperationRequest, named_table, read_statuses
from lakehand.inputs.parameters import check_options, read_instant
from lakehand.rpc.context import Call
from lakehand.rpc.feed import without_lease
from lakehand.rpc.generated import operation_pb2
from lakehand.rpc.generated import operations_pb2 as pb
from lakehand.rpc.messages import event_message, fill, given, id_of, operation_message, read
from lakehand.rpc.streams import Stream

PAGE = 1000

Pair = tuple[Operation, Table]


@dataclass(eq=False, kw_only=True)
class Watched:
    """Which operations a stream wants, and their newest states that it has not sent yet."""

    ids: frozenset[OperationId]
    wanted: OperationFilter
    statuses: frozenset[str]
    waiting: dict[OperationId, Pair] = field(default_factory=dict)
    sent: dict[OperationId, Operation] = field(default_factory=dict)

    def offer(self, operation: Operation, table: Table) -> None:
        """A later state replaces one that was not sent yet."""
        if self.matches(operation):
            self.waiting[operation.id] = (operation, table)

    def matches(self, operation: Operation) -> bool:
        if self.ids:
            return operation.id in self.ids
        wanted, process = self.wanted, operation.process
        pairs = (
            (wanted.table, operation.table), (wanted.action, process.action), (wanted.owner, operation.owner),
            (wanted.queue, operation.queue),
        )  # fmt: skip
        return all(value is None or value == own for value, own in pairs)

    def take(self) -> list[Pair]:
        """The states to send: those that differ from the last one that was sent."""
        waiting, self.waiting = self.waiting, {}
        return [pair for pair in waiting.values() if self.is_news(pair[0])]

    def is_news(self, operation: Operation) -> bool:
        state, last = without_lease(operation), self.sent.get(operation.id)
        if last is not None and (state == last or state.updated_at < last.updated_at):
            return False
        self.sent[operation.id] = state
        if operation.status.is_final:
            del self.sent[operation.id]
        return not self.statuses or operation.status in self.statuses


async def watch_operations(
    stream: Stream, request: pb.WatchOperationsRequest
) -> AsyncIterator[pb.WatchOperationsResponse]:
    watched = await stream.run(watched_of, stream.call, request)
    feed = stream.feed
    try:
        await feed.join(stream.news, watched)
        present = await stream.run(present_states, stream.call, watched)
        feed.note(operation for operation, _ in present if not operation.status.is_final)
        for operation, table in present:
            watched.waiting.setdefault(operation.id, (operation, table))
        await stream.opened()
        while True:
            for operation, table in watched.take():
                yield pb.WatchOperationsResponse(operation=operation_message(operation, table))
                if watched.ids and operation.status.is_final:
                    return
            await stream.wait()
    finally:
        feed.leave(stream.news, watched)


def watched_of(call: Call, request: pb.WatchOperationsRequest) -> Watched:
    statuses = frozenset(given(request).get("statuses", []))
    query = read(OperationQuery, request, "id", "statuses")
    table = call.services.tables.find(query.location).id if query.location else query.table
    wanted = OperationFilter(
        table=None if table is None else TableId(table), owner=query.owner, queue=query.queue,
        action=Action(query.action) if query.action else None,
    )  # fmt: skip
    ids = frozenset({OperationId(id_of(request))}) if request.id else frozenset[OperationId]()
    return Watched(ids=ids, wanted=wanted, statuses=statuses)


def present_states(call: Call, watched: Watched) -> Sequence[Pair]:
    """Of the operation, or of all unfinished ones that match, oldest first."""
    context = call.context
    if watched.ids:
        [wanted_id] = watched.ids
        operation = context.store.operations.get(wanted_id)
        return [(operation, context.store.tables.get(operation.table))]
    wanted = OperationFilter(
        table=watched.wanted.table, owner=watched.wanted.owner, queue=watched.wanted.queue,
        action=watched.wanted.action, statuses=UNFINISHED,
    )  # fmt: skip
    found: list[Pair] = []
    cursor: str | None = None
    while True:
        page = context.services.operations.list(wanted, limit=PAGE, cursor=cursor)
        found += page.items
        cursor = page.next
        if cursor is None:
            return found[::-1]


def list_operations(call: Call, request: pb.ListOperationsRequest) -> pb.ListOperationsResponse:
    query = read(OperationQuery, request, "statuses", status=",".join(given(request).get("statuses", [])) or None)
    filters = query.filters() | {"action": Action(query.action) if query.action else None}
    statuses = read_statuses(filters.pop("status") or "")
    wanted = OperationFilter(**filters, statuses=statuses)
    page = call.services.operations.list(wanted, limit=query.limit, cursor=query.cursor)
    operations = [operation_message(*pair) for pair in page.items]
    return pb.ListOperationsResponse(operations=operations, next_page_token=page.next or "")


def submit_operation(call: Call, request: pb.SubmitOperationRequest) -> pb.SubmitOperationResponse:
    new, rules = read(OperationRequest, request), call.context.rules
    table = named_table(new, call.services.tables)
    instant = read_instant(new.instant, rules) if new.instant else None
    options = {"options": dict(check_options(new.options, rules))} if new.options else {}
    operation, is_new = call.services.requests.operations.submit(
        call.caller, table, Action(new.action), instant=instant, parameters=options,
        dry_run=new.dry_run, confirm=new.confirm, verify_rows=new.verify_rows,
    )  # fmt: skip
    return pb.SubmitOperationResponse(operation=operation_message(operation, table), is_new=is_new)


def get_operation(call: Call, request: pb.GetOperationRequest) -> pb.GetOperationResponse:
    found = call.services.operations.show(OperationId(id_of(request)))
    detail = fill(
        operation_pb2.OperationDetail(), found.operation.process, found.operation,
        operation=operation_message(found.operation, found.table), attempts=found.attempts,
        events=[event_message(event) for event in found.events],
    )  # fmt: skip
    return pb.GetOperationResponse(detail=detail)


def cancel_operation(call: Call, request: pb.CancelOperationRequest) -> pb.CancelOperationResponse:
    operation = call.services.requests.operations.cancel(call.caller, OperationId(id_of(request)))
    return pb.CancelOperationResponse(operation=shown(call, operation))


def retry_operation(call: Call, request: pb.RetryOperationRequest) -> pb.RetryOperationResponse:
    operation = call.services.requests.operations.retry(call.caller, OperationId(id_of(request)))
    return pb.RetryOperationResponse(operation=shown(call, operation))


def remove_operation(call: Call, request: pb.RemoveOperationRequest) -> pb.RemoveOperationResponse:
    operation = call.services.requests.operations.cancel(call.caller, OperationId(id_of(request)), delete=True)
    return pb.RemoveOperationResponse(operation=shown(call, operation))


def shown(call: Call, operation: Operation) -> operation_pb2.Operation:
    return operation_message(operation, call.context.store.tables.get(operation.table))


def read_logs(call: Call, request: pb.ReadLogsRequest) -> pb.ReadLogsResponse:
    operation, query = OperationId(id_of(request)), read(LogQuery, request, "id")
    chosen, text = call.services.operations.logs(operation, **query.model_dump())
    end = query.offset + len(text.encode("utf-8", "replace"))
    return fill(
        pb.ReadLogsResponse(), operation=operation, attempt=chosen.number, engine=chosen.engine, offset=query.offset,
        next_offset=end, text=text,
    )  # fmt: skip
