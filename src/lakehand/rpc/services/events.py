# SPDX-License-Identifier: Apache-2.0
"""Events: list, and watch: each new one once, from now, from an id or from a position on."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from lakehand.api.events import EventQuery
from lakehand.api.fields import values_of
from lakehand.core.feed import BATCH, GAP_WAIT, Changes
from lakehand.domain.errors import Invalid
from lakehand.domain.events import Event, EventPosition, StoredEvent
from lakehand.rpc.context import Call, Stream
from lakehand.rpc.generated import events_pb2 as pb
from lakehand.rpc.messages import event_message, read

MOST_WAITING = 5000  # new events in memory for a stream whose client reads slowly


def list_events(call: Call, request: pb.ListEventsRequest) -> pb.ListEventsResponse:
    page = call.context.store.events.list(**values_of(read(EventQuery, request)))
    return pb.ListEventsResponse(events=map(event_message, page.items), next_page_token=page.next or "")


@dataclass(kw_only=True)
class NewEvents:
    """Those that a stream has not sent yet. If it is too slow for them, it is to read them from the store."""

    is_behind: bool
    waiting: list[StoredEvent] = field(default_factory=list)
    settled: int = 0  # what the stream has not seen up to here never comes

    def note(self, changes: Changes) -> None:
        self.waiting += changes.events
        self.settled = changes.position.base
        if len(self.waiting) > MOST_WAITING:
            self.waiting, self.is_behind = [], True

    def take(self) -> list[StoredEvent]:
        taken, self.waiting = self.waiting, []
        return taken


async def watch_events(stream: Stream, request: pb.WatchEventsRequest) -> AsyncIterator[pb.WatchEventsResponse]:
    query = read(EventQuery, request, "after_id", "position")
    begin = begin_of(request)
    new = NewEvents(is_behind=begin is not None)
    position = await stream.join(new.note)
    if begin is not None:
        await stream.run(check_reached, stream.call, begin)
        position = begin
    async for stored in follow(stream, new, position):
        if matches(query, stored.event):
            yield pb.WatchEventsResponse(event=event_message(stored), position=str(position))


async def follow(stream: Stream, new: NewEvents, position: EventPosition) -> AsyncIterator[StoredEvent]:
    """Each new event once."""
    await stream.opened()
    while True:
        if new.is_behind:
            new.is_behind, new.waiting = False, []
            async for stored in catch_up(stream, position):
                yield stored
        for stored in delivered(new.take(), position):
            yield stored
        if not new.waiting and not new.is_behind:
            position.settle(new.settled)
        await stream.wait()


def begin_of(request: pb.WatchEventsRequest) -> EventPosition | None:
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
