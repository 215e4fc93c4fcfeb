# SPDX-License-Identifier: Apache-2.0
"""Operations: list, show, submit, change, cancel, retry, remove, logs, watch."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from lakehand.api.operations import ChangedOperation, LogQuery, OperationQuery, OperationRequest, detail_answer
from lakehand.domain.actions import Action
from lakehand.domain.operations import UNFINISHED, Operation, OperationId
from lakehand.domain.tables import Table
from lakehand.rpc.context import Call
from lakehand.rpc.feed import Stream, without_lease
from lakehand.rpc.generated import operation_pb2
from lakehand.rpc.generated import operations_pb2 as pb
from lakehand.rpc.messages import fill, given, id_of, operation_message, read

PAGE = 1000

Pair = tuple[Operation, Table]


@dataclass(eq=False, kw_only=True)
class Watched:
    """Which operations a stream wants, and their newest states that it has not sent yet."""

    ids: frozenset[OperationId]
    wanted: OperationQuery
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
    action = Action(query.action) if query.action else None
    table = call.services.tables.find(query.location).id if query.location else query.table
    query = replace(query, table=table, location=None, action=action)
    ids = frozenset({OperationId(id_of(request))}) if request.id else frozenset[OperationId]()
    return Watched(ids=ids, wanted=query, statuses=statuses)


def present_states(call: Call, watched: Watched) -> Sequence[Pair]:
    """Of the operation, or of all unfinished ones that match, oldest first."""
    context = call.context
    if watched.ids:
        [wanted_id] = watched.ids
        operation = context.store.operations.get(wanted_id)
        return [(operation, context.store.tables.get(operation.table))]
    wanted = replace(watched.wanted, status=",".join(UNFINISHED), limit=PAGE)
    found: list[Pair] = []
    while True:
        page = call.services.operations.list(wanted)
        found += page.items
        if page.next is None:
            return found[::-1]
        wanted = replace(wanted, cursor=page.next)


def list_operations(call: Call, request: pb.ListOperationsRequest) -> pb.ListOperationsResponse:
    query = read(OperationQuery, request, "statuses", status=",".join(given(request).get("statuses", [])) or None)
    page = call.services.operations.list(query)
    operations = [operation_message(*pair) for pair in page.items]
    return pb.ListOperationsResponse(operations=operations, next_page_token=page.next or "")


def submit_operation(call: Call, request: pb.SubmitOperationRequest) -> pb.SubmitOperationResponse:
    operation, table, is_new = call.services.operations.submit(call.caller, read(OperationRequest, request))
    return pb.SubmitOperationResponse(operation=operation_message(operation, table), is_new=is_new)


def get_operation(call: Call, request: pb.GetOperationRequest) -> pb.GetOperationResponse:
    found = call.services.operations.show(OperationId(id_of(request)))
    answer = detail_answer(found.operation, found.table, found.attempts, found.events)
    operation = operation_message(found.operation, found.table)
    detail = fill(operation_pb2.OperationDetail(), answer, operation=operation, attempts=answer.attempt_list)
    return pb.GetOperationResponse(detail=detail)


def change_operation(call: Call, request: pb.ChangeOperationRequest) -> pb.ChangeOperationResponse:
    operation, changed = OperationId(id_of(request)), read(ChangedOperation, request, "id")
    pair = call.services.operations.change(call.caller, operation, changed)
    return pb.ChangeOperationResponse(operation=operation_message(*pair))


def cancel_operation(call: Call, request: pb.CancelOperationRequest) -> pb.CancelOperationResponse:
    pair = call.services.operations.cancel(call.caller, OperationId(id_of(request)))
    return pb.CancelOperationResponse(operation=operation_message(*pair))


def retry_operation(call: Call, request: pb.RetryOperationRequest) -> pb.RetryOperationResponse:
    pair = call.services.operations.retry(call.caller, OperationId(id_of(request)))
    return pb.RetryOperationResponse(operation=operation_message(*pair))


def remove_operation(call: Call, request: pb.RemoveOperationRequest) -> pb.RemoveOperationResponse:
    pair = call.services.operations.cancel(call.caller, OperationId(id_of(request)), delete=True)
    return pb.RemoveOperationResponse(operation=operation_message(*pair))


def read_logs(call: Call, request: pb.ReadLogsRequest) -> pb.ReadLogsResponse:
    logs = call.services.operations.logs(OperationId(id_of(request)), read(LogQuery, request, "id"))
    return fill(pb.ReadLogsResponse(), logs)
