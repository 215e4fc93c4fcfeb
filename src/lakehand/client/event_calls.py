# SPDX-License-Identifier: Apache-2.0
"""Calls about events: what happened, newest first; or as it happens, oldest first."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from time import monotonic

from lakehand.api.events import EventQuery
from lakehand.api.fields import PageAnswer, values_of
from lakehand.client import Parameters
from lakehand.client.answers import Event
from lakehand.client.errors import Unavailable
from lakehand.client.groups import Call, Group, Listing, R
from lakehand.client.operation_calls import OperationRef, id_of
from lakehand.client.steps import Items, ItemSteps, Sleep, Steps, get, send, send_for_pages
from lakehand.client.table_calls import TableRef, table_id
from lakehand.client.writer_calls import send_commit

EVENTS = "/api/v1/events"
LARGE_PAGE = 1000
EPOCH = datetime.fromtimestamp(0, timezone.utc)
POLL = 1.0  # seconds between two readings
OVERLAP = timedelta(seconds=30)  # a transaction that stores an event later than this after its time is not expected
OUTAGE = 300.0  # seconds


def filters_of(table: TableRef | None, operation: OperationRef | None, kind: str | None) -> Steps[Parameters]:
    number = None if table is None else (yield from table_id(table))
    return values_of(EventQuery(table=number, operation=None if operation is None else id_of(operation), kind=kind))


def list_events(
    *,
    limit: int | None = None,
    table: TableRef | None = None,
    operation: OperationRef | None = None,
    kind: str | None = None,
) -> ItemSteps[Event]:
    """Events, newest first. ``kind`` is a whole kind, or a prefix that ends in a dot."""
    yield from send_for_pages(EVENTS, PageAnswer[Event], (yield from filters_of(table, operation, kind)), limit)


def stream_events(
    *,
    after: Event | datetime | None = None,
    table: TableRef | None = None,
    operation: OperationRef | None = None,
    kind: str | None = None,
    poll: float = POLL,
    outage: float = OUTAGE,
) -> ItemSteps[Event]:
    """Events as they happen, oldest first, without an end; each once. ``after``: begin after that, else now.

    A counted event comes again when its count has grown. Raises Unavailable when the service is away for longer
    than ``outage`` seconds; until then nothing is lost.
    """
    filters = yield from filters_of(table, operation, kind)
    window: EventWindow | None = None
    away_since: float | None = None
    while True:
        try:
            found = yield from read_back(filters, window.start if window else start_of(after))
        except Unavailable:
            away_since = away_since if away_since is not None else monotonic()
            if monotonic() - away_since >= outage:
                raise
        else:
            away_since = None
            window = window or EventWindow(found, after)
            yield Items(window.take(found))
        yield Sleep(poll)


def start_of(after: Event | datetime | None) -> datetime | None:
    at = after.at if isinstance(after, Event) else after
    return None if at is None else at - OVERLAP


def read_back(filters: Parameters, start: datetime | None) -> Steps[list[Event]]:
    """Everything that happened since, newest first; None: since a little before the newest event."""
    found: list[Event] = []
    cursor: str | None = None
    while True:
        page = yield from send(get(EVENTS, PageAnswer[Event], {**filters, "limit": LARGE_PAGE, "cursor": cursor}))
        if start is None:
            start = page.items[0].at - OVERLAP if page.items else EPOCH
        recent = [event for event in page.items if event.at >= start]
        found += recent
        cursor = page.next
        if cursor is None or len(recent) < len(page.items):
            return found


class EventWindow:
    """The events of the last moments, each with its count: what is not among them is new.

    Transactions end in another order than they begin, so that an event may appear behind a newer one: every reading
    goes back a little further than the newest event.
    """

    def __init__(self, found: Iterable[Event], after: Event | datetime | None) -> None:
        self.start = start_of(after) or EPOCH
        self.seen = {event.id: event for event in found if is_before(event, after)}

    def take(self, found: Iterable[Event]) -> list[Event]:
        """Those that are new, oldest first."""
        new = [event for event in found if self.is_new(event)]
        self.seen |= {event.id: event for event in new}
        if self.seen:
            self.start = max(self.start, max(event.at for event in self.seen.values()) - OVERLAP)
            self.seen = {event.id: event for event in self.seen.values() if event.at >= self.start}
        return sorted(new, key=lambda event: (event.at, event.id))

    def is_new(self, event: Event) -> bool:
        known = self.seen.get(event.id)
        return known is None or known.times < event.times


def is_before(event: Event, after: Event | datetime | None) -> bool:
    if isinstance(after, datetime):
        return event.at <= after
    return after is None or (event.at, event.id) <= (after.at, after.id)


class Events(Group[R]):
    list = Listing(list_events)
    stream = Listing(stream_events)
    send = Call(send_commit)
