# SPDX-License-Identifier: Apache-2.0
"""The rpcs that stream: states of operations; and events, each new one once, from now, an id or a position on."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from lakehand.api.events import EventQuery
from lakehand.api.operations import OperationQuery
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.events import Event, EventPosition, StoredEvent
from lakehand.domain.operations import UNFINISHED, Operation, OperationId
from lakehand.domain.tables import Table
from lakehand.rpc.context import Call
from lakehand.rpc.feed import BATCH, GAP_WAIT, Stream, without_lease
from lakehand.rpc.generated import events_pb2, operations_pb2
from lakehand.rpc.messages import event_message, given, id_of, operation_message, read

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
    stream: Stream, request: operations_pb2.WatchOperationsRequest
) -> AsyncIterator[operations_pb2.WatchOperationsResponse]:
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
                yield operations_pb2.WatchOperationsResponse(operation=operation_message(operation, table))
                if watched.ids and operation.status.is_final:
                    return
            await stream.wait()
    finally:
        feed.leave(stream.news, watched)


def watched_of(call: Call, request: operations_pb2.WatchOperationsRequest) -> Watched:
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


async def watch_events(
    stream: Stream, request: events_pb2.WatchEventsRequest
) -> AsyncIterator[events_pb2.WatchEventsResponse]:
    query = read(EventQuery, request, "after_id", "position")
    begin = begin_of(request)
    try:
        await stream.feed.join(stream.news)
        position = begin or stream.feed.position.copy()
        if begin is not None:
            await stream.run(check_reached, stream.call, begin)
        async for stored in follow(stream, position, is_behind=begin is not None):
            if matches(query, stored.event):
                yield events_pb2.WatchEventsResponse(event=event_message(stored), position=str(position))
    finally:
        stream.feed.leave(stream.news)


async def follow(stream: Stream, position: EventPosition, *, is_behind: bool) -> AsyncIterator[StoredEvent]:
    """Each new event once. A stream that is too slow for what is kept in memory reads it from the store."""
    feed, offset = stream.feed, stream.feed.offset
    await stream.opened()
    while True:
        if is_behind:
            offset = feed.offset
            async for stored in catch_up(stream, position):
                yield stored
        new = feed.since(offset)
        is_behind = new is None
        if new is None:
            continue
        offset = feed.offset
        for stored in delivered(new, position):
            yield stored
        position.settle(feed.settled if feed.offset == offset else 0)
        await stream.wait()


def begin_of(request: events_pb2.WatchEventsRequest) -> EventPosition | None:
    if request.position:
        return EventPosition.read(request.position)
    if not request.HasField("after_id"):
        return None
    if request.after_id < 0:
        raise Invalid("after_id: give the id of an event, or 0 for all")
    return EventPosition(request.after_id)


def check_reached(call: Call, begin: EventPosition) -> None:
    """A database that was set up anew, or restored, counts from a lower number."""
    last = call.context.store.events.last_id()
    if begin.base > last:
        raise Invalid(f"there is no event {begin.base} yet, the last one is {last}: begin without an id or a position")


async def catch_up(stream: Stream, position: EventPosition) -> AsyncIterator[StoredEvent]:
    """What is stored after the position. What is missing below an old event never comes."""
    context, reached = stream.call.context, position.base
    while True:
        found = await stream.run(context.store.events.after, reached, limit=BATCH)
        old = context.store.clock.estimate() - timedelta(seconds=GAP_WAIT)
        for stored in delivered(found, position):
            if stored.first_at < old:
                position.settle(stored.id)
            yield stored
        await stream.check()
        if len(found) < BATCH:
            return
        reached = found[-1].id


def delivered(events: Iterable[StoredEvent], position: EventPosition) -> Iterator[StoredEvent]:
    return (stored for stored in events if position.add(stored.id))


def matches(query: EventQuery, event: Event) -> bool:
    same = ((query.table, event.table), (query.operation, event.operation))
    if any(wanted is not None and wanted != own for wanted, own in same):
        return False
    kind = query.kind
    return kind is None or event.kind == kind or (kind.endswith(".") and event.kind.startswith(kind))
