# SPDX-License-Identifier: Apache-2.0
"""Tells open pages that something changed, by server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from lakehand.core.feed import FLEET, ChangeFeed, Changes, Topic
from lakehand.domain.errors import LakehandError, Unavailable

RECHECK = 5.0  # seconds after which the session of a stream is checked again
QUIET = 15.0  # seconds after which a stream without news sends a comment: proxies keep it open, closed pages are seen
MOST_WATCHERS = 500


def read_topic(text: str) -> Topic:
    """What a page is about."""
    kind, _, number = text.partition(":")
    if kind in ("table", "operation") and number.isascii() and number.isdigit() and len(number) < 19:
        return Topic(kind, int(number))
    return FLEET


@dataclass(kw_only=True)
class LivePages:
    feed: ChangeFeed
    quiet: float = QUIET
    recheck: float = RECHECK
    on_change: Callable[[float], None] = lambda began: None  # the monotonic time at which the reading began
    watchers: int = 0

    def open(self, topic: Topic, is_valid: Callable[[], bool]) -> AsyncIterator[str]:
        """Server-sent events for one page, until it is closed, its session is over, or the service ends."""
        if self.watchers >= MOST_WATCHERS:
            raise Unavailable(f"{MOST_WATCHERS} pages are open already: this one is not kept up to date")
        return self.stream(topic, is_valid)

    async def stream(self, topic: Topic, is_valid: Callable[[], bool]) -> AsyncIterator[str]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def note(changes: Changes) -> None:
            self.on_change(changes.began)
            if topic in changes.topics or changes.is_first or self.feed.is_closed:
                news.set()

        def follow(changes: Changes) -> None:
            loop.call_soon_threadsafe(note, changes)

        self.feed.join(follow, [topic])
        self.watchers += 1
        try:
            yield "retry: 2000\n\n"
            said_at = checked_at = time.monotonic()
            while not self.feed.is_closed:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(news.wait(), min(self.recheck, self.quiet))
                if time.monotonic() - checked_at >= self.recheck:
                    if not await self.check(is_valid):
                        return
                    checked_at = time.monotonic()
                if news.is_set() or time.monotonic() - said_at >= self.quiet:
                    line = "event: changed\ndata: 1\n\n" if news.is_set() else ": still here\n\n"
                    news.clear()
                    said_at = time.monotonic()
                    yield line
        finally:
            self.feed.leave(follow)
            self.watchers -= 1

    async def check(self, is_valid: Callable[[], bool]) -> bool:
        try:
            return await run_in_threadpool(is_valid)
        except LakehandError:
            return True  # the database is away: nothing is read from it, so there is no news either
