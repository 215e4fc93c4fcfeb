# SPDX-License-Identifier: Apache-2.0
"""Tells open pages that something changed, by server-sent events. Reads the store only while somebody watches."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from lakehand.core.ports import Events, OperationFilter, Operations, Tables
from lakehand.domain.errors import LakehandError, Unavailable
from lakehand.domain.operations import LIVE
from lakehand.domain.tables import TableId

log = logging.getLogger(__name__)
PACE = 1.0  # seconds between two readings
RECHECK = 5.0  # seconds after which the session of a stream is checked again
QUIET = 15.0  # seconds after which a stream without news sends a comment: proxies keep it open, closed pages are seen
MOST_WATCHERS = 500
RECENT = 100  # events, and live operations, that one reading compares
FLEET = "fleet"


class Topic(NamedTuple):
    """What a page is about: the fleet, a table or an operation."""

    kind: str
    id: int = 0

    @classmethod
    def read(cls, text: str) -> "Topic":
        kind, _, number = text.partition(":")
        if kind in ("table", "operation") and number.isascii() and number.isdigit() and len(number) < 19:
            return cls(kind, int(number))
        return cls(FLEET)


@dataclass(eq=False, slots=True)
class Watcher:
    topic: Topic
    news: asyncio.Event = field(default_factory=asyncio.Event)


Seen = Mapping[Topic, object]  # what each topic looked like


def always() -> bool:
    """The default: nobody can take it back."""
    return True


def ignore_change(_seen_at: float) -> None:
    """The default: nobody but the watchers wants to know."""


@dataclass(kw_only=True)
class LiveFeed:
    """One reader for all open pages of this instance, however many they are."""

    events: Events
    operations: Operations
    tables: Tables
    pace: float = PACE
    quiet: float = QUIET
    recheck: float = RECHECK
    on_change: Callable[[float], None] = ignore_change  # the monotonic time at which the reading began
    _watchers: set[Watcher] = field(default_factory=set)
    _reader: "asyncio.Task[None] | None" = None
    _is_closed: bool = False
    readings: int = 0

    def open(self, topic: Topic, is_valid: Callable[[], bool] = always) -> AsyncIterator[str]:
        """Server-sent events for one page, until it is closed, its session is over, or the service ends."""
        if len(self._watchers) >= MOST_WATCHERS:
            raise Unavailable(f"{MOST_WATCHERS} pages are open already: this one is not kept up to date")
        return self.stream(topic, is_valid)

    async def stream(self, topic: Topic, is_valid: Callable[[], bool]) -> AsyncIterator[str]:
        watcher = Watcher(topic)
        self._watchers.add(watcher)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self.read_on())
        try:
            yield "retry: 2000\n\n"
            said_at = checked_at = time.monotonic()
            while not self._is_closed:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(watcher.news.wait(), min(self.recheck, self.quiet))
                if time.monotonic() - checked_at >= self.recheck:
                    if not await self.check(is_valid):
                        return
                    checked_at = time.monotonic()
                if watcher.news.is_set() or time.monotonic() - said_at >= self.quiet:
                    line = "event: changed\ndata: 1\n\n" if watcher.news.is_set() else ": still here\n\n"
                    watcher.news.clear()
                    said_at = time.monotonic()
                    yield line
        finally:
            self._watchers.discard(watcher)

    async def check(self, is_valid: Callable[[], bool]) -> bool:
        try:
            return await run_in_threadpool(is_valid)
        except LakehandError:
            return True  # the database is away: nothing is read from it, so there is no news either

    async def read_on(self) -> None:
        """Ends by itself when nobody watches any more."""
        before: Seen | None = None
        while self._watchers and not self._is_closed:
            began = time.monotonic()
            try:
                now = await run_in_threadpool(
                    self.read, {w.topic.id for w in self._watchers if w.topic.kind == "table"}
                )
            except Exception:
                log.warning("open pages are not kept up to date right now", exc_info=True)
            else:
                if before != now:
                    self.on_change(began)
                    self.notify(before or {}, now)
                before = now
                self.readings += 1
            await asyncio.sleep(self.pace)

    def read(self, watched: set[int]) -> Seen:
        """A value for each topic that differs when the topic has changed."""
        events = self.events.list(limit=RECENT).items
        live = self.operations.list(OperationFilter(statuses=LIVE), limit=RECENT, cursor=None).items
        found: dict[Topic, object] = {}
        for stored in reversed(events):
            for kind, number in (("table", stored.event.table), ("operation", stored.event.operation)):
                if number is not None:
                    found[Topic(kind, number)] = (stored.id, stored.times)
        for operation in live:
            state = (operation.status, operation.updated_at, str(operation.progress))
            for topic in (Topic("operation", operation.id), Topic("table", operation.table)):
                found[topic] = (found.get(topic), state)
        for table in self.tables.by_ids({TableId(number) for number in watched}).values():
            topic = Topic("table", table.id)
            found[topic] = (found.get(topic), table)
        newest = (events[0].id, events[0].times) if events else None
        found[Topic(FLEET)] = (newest, [(o.id, o.status, o.updated_at) for o in live])
        return found

    def notify(self, before: Seen, now: Seen) -> None:
        """Whoever opened a page before the first reading is told, too: a change between both is in no comparison."""
        for watcher in self._watchers:
            if before.get(watcher.topic) != now.get(watcher.topic):
                watcher.news.set()

    def close(self) -> None:
        """End all streams, so that the service can stop."""
        self._is_closed = True
        for watcher in self._watchers:
            watcher.news.set()

    @property
    def is_reading(self) -> bool:
        return self._reader is not None and not self._reader.done()

    @property
    def watchers(self) -> int:
        return len(self._watchers)
