# SPDX-License-Identifier: Apache-2.0
"""Follows what changes, once for all streams of this instance. Reads the store only while somebody watches.

What every stream does: wait for news, check its token again, and end with the service.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Protocol

from lakehand.core.ports import OperationFilter, Store
from lakehand.domain.errors import Unauthorized
from lakehand.domain.events import EventPosition, StoredEvent
from lakehand.domain.operations import LIVE, Operation, OperationId
from lakehand.domain.tables import Table
from lakehand.rpc.context import Call, RunInThread
from lakehand.rpc.errors import Stopping

log = logging.getLogger(__name__)
GAP_WAIT = 90.0  # seconds until a missing id never comes: longer than a transaction may last
BATCH = 1000  # events of one reading
KEPT = 5000  # new events that watchers can still fetch from memory
MOST_MISSING = 1000  # missing ids that are looked for again at each reading
MOST_LIVE = 1000


class OperationWatcher(Protocol):
    ids: frozenset[OperationId]  # watched whatever happens to them

    def offer(self, operation: Operation, table: Table) -> None: ...


@dataclass(frozen=True, slots=True)
class FeedReading:
    """What one reading of the store has found."""

    events: Sequence[StoredEvent] = ()
    operations: Sequence[tuple[Operation, Table]] = ()
    is_full: bool = False


@dataclass(kw_only=True)
class ChangeFeed:
    """Changed by the event loop only. ``_read`` runs in a thread, once at a time, and changes nothing."""

    store: Store
    run: RunInThread
    pace: float
    gap_wait: float = GAP_WAIT
    position: EventPosition = field(default_factory=EventPosition)
    settled: int = 0  # what is missing up to here never comes
    offset: int = 0  # how many new events were seen since the start
    recent: deque[StoredEvent] = field(default_factory=lambda: deque(maxlen=KEPT))
    is_closed: bool = False
    readings: int = 0
    _wake_ups: set[asyncio.Event] = field(default_factory=set)
    _operation_watchers: set[OperationWatcher] = field(default_factory=set)
    _known: dict[OperationId, Operation] = field(default_factory=dict)  # unfinished ones, as last seen
    _ended: dict[OperationId, Operation] = field(default_factory=dict)  # the last ones that ended
    _heights: deque[tuple[float, int]] = field(default_factory=deque)
    _reader: "asyncio.Task[None] | None" = None
    _is_following: "asyncio.Event | None" = None

    async def join(self, news: asyncio.Event, operations: OperationWatcher | None = None) -> None:
        """Set the event at every change from now on. Returns when nothing that follows can be missed."""
        self._wake_ups.add(news)
        if operations is not None:
            self._operation_watchers.add(operations)
        if self._reader is None or self._reader.done():
            self._is_following = asyncio.Event()
            self._reader = asyncio.create_task(self._follow(self._is_following))
        assert self._is_following is not None
        await self._is_following.wait()

    def leave(self, news: asyncio.Event, operations: OperationWatcher | None = None) -> None:
        self._wake_ups.discard(news)
        if operations is not None:
            self._operation_watchers.discard(operations)

    def note(self, operations: Iterable[Operation]) -> None:
        """Unfinished operations that a watcher was shown."""
        for operation in operations:
            self._known.setdefault(operation.id, without_lease(operation))

    def since(self, offset: int) -> list[StoredEvent] | None:
        """The new events after an offset; None if some of them are no longer in memory."""
        count = self.offset - offset
        if count > len(self.recent):
            return None
        return [self.recent[at] for at in range(len(self.recent) - count, len(self.recent))]

    async def _follow(self, is_following: asyncio.Event) -> None:
        """Ends by itself when nobody watches any more."""
        is_begun = False
        while self._wake_ups and not self.is_closed:
            is_full = False
            try:
                if is_begun:
                    is_full = self._publish(await self.run(self._read))
                else:
                    await self.run(self._begin)
                    is_begun = True
                    is_following.set()
                self.readings += 1
            except Exception:
                log.warning("streams are not kept up to date right now", exc_info=True)
            if not is_full:
                await asyncio.sleep(self.pace)
        is_following.set()

    def _begin(self) -> FeedReading:
        """Start at the newest event; ids just below it that are missing may still come."""
        last = self.store.events.last_id()
        position = EventPosition(max(last - BATCH, 0))
        for event in self.store.events.after(position.base, limit=BATCH):
            position.add(event.id)
        self.position, self.settled = position, position.base
        return FeedReading()

    def _read(self) -> FeedReading:
        missing = list(islice(self.position.missing(), MOST_MISSING))
        fresh = self.store.events.after(self.position.highest, limit=BATCH)
        found = [*self.store.events.by_ids(missing), *fresh]
        changed = self._changed_operations(found) if self._operation_watchers else []
        tables = self.store.tables.by_ids({operation.table for operation in changed})
        pairs = [(operation, tables[operation.table]) for operation in changed]
        return FeedReading(found, pairs, is_full=len(fresh) == BATCH)

    def _settle(self, now: float) -> None:
        self._heights.append((now, self.position.highest))
        while self._heights and now - self._heights[0][0] >= self.gap_wait:
            self.settled = self._heights.popleft()[1]
        self.position.settle(self.settled)

    def _changed_operations(self, events: Sequence[StoredEvent]) -> list[Operation]:
        """Those with a new event, those that run, those that are watched by id, and those of a table with an event."""
        live = self.store.operations.list(OperationFilter(statuses=LIVE), limit=MOST_LIVE, cursor=None).items
        touched = {one.event.operation for one in events if one.event.operation is not None}
        tables = {one.event.table for one in events if one.event.operation is None}
        watched = set(chain.from_iterable(watcher.ids for watcher in list(self._operation_watchers)))
        moved = {one.id for one in list(self._known.values()) if one.status.is_live or one.table in tables}
        others = self.store.operations.by_ids((touched | watched | moved) - {one.id for one in live})
        last = {**self._ended, **self._known}
        return [one for one in [*live, *others] if last.get(one.id) != without_lease(one)]

    def _publish(self, reading: FeedReading) -> bool:
        for event in reading.events:
            if self.position.add(event.id):
                self.recent.append(event)
                self.offset += 1
        self._settle(time.monotonic())
        for operation, table in reading.operations:
            self._remember(operation)
            for watcher in self._operation_watchers:
                watcher.offer(operation, table)
        if reading.events or reading.operations:
            self._wake()
        return reading.is_full

    def _remember(self, operation: Operation) -> None:
        left, entered = (self._known, self._ended) if operation.status.is_final else (self._ended, self._known)
        left.pop(operation.id, None)
        entered[operation.id] = without_lease(operation)
        if len(self._ended) > KEPT:
            del self._ended[next(iter(self._ended))]

    def _wake(self) -> None:
        for news in self._wake_ups:
            news.set()

    def close(self) -> None:
        """Let all streams end."""
        self.is_closed = True
        self._wake()

    async def end(self) -> None:
        """When no stream is left."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader

    @property
    def watchers(self) -> int:
        return len(self._wake_ups)


def without_lease(operation: Operation) -> Operation:
    """A renewed lease is not a change that anybody watches for."""
    return replace(operation, lease=None)


@dataclass(kw_only=True)
class Stream:
    """One open stream."""

    call: Call
    feed: ChangeFeed
    run: RunInThread
    is_valid: Callable[[], bool]  # whether its token still is
    opened: Callable[[], Awaitable[None]]  # tells the caller that nothing is missed from now on
    recheck: float
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _checked_at: float = field(default_factory=time.monotonic)

    async def wait(self) -> None:
        """Until something changed. Raises when the service stops, or the token is no longer valid."""
        while not self.news.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.news.wait(), self.recheck)
            await self.check()
        self.news.clear()
        await self.check()

    async def check(self) -> None:
        if self.feed.is_closed:
            raise Stopping
        if time.monotonic() - self._checked_at >= self.recheck:
            if not await self.run(self.is_valid):
                raise Unauthorized("the token of this stream is no longer valid")
            self._checked_at = time.monotonic()
