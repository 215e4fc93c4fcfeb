# SPDX-License-Identifier: Apache-2.0
"""What every stream does: wait for news, check its token again, and end with the service."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from lakehand.domain.errors import Unauthorized
from lakehand.rpc.context import Call, RunInThread
from lakehand.rpc.errors import Stopping
from lakehand.rpc.feed import ChangeFeed


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
