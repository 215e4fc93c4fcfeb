# SPDX-License-Identifier: Apache-2.0
"""What the gRPC API is given: services, bounds, callbacks for metrics. And what each call and each stream has of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol, TypeVar

from lakehand.core.feed import ChangeFeed, Changes, Follower, Topic
from lakehand.core.intake.commit_events import CommitIntake
from lakehand.core.ports import Store
from lakehand.core.services.services import Services
from lakehand.domain.access import Caller
from lakehand.domain.errors import Unauthorized
from lakehand.domain.events import EventPosition
from lakehand.rpc.errors import Stopping

P = ParamSpec("P")
T = TypeVar("T")


class RunInThread(Protocol):
    """Runs a function in one of the server's threads: services are synchronous."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcBounds:
    """How much clients may ask of the server."""

    max_message: int = 64 * 1024  # bytes of one request
    max_requests: int = 1000  # at once, streams included; also the most of one connection
    max_streams: int = 500  # watchers at once
    max_connections: int = 1024
    threads: int = 16  # that work for requests and for all streams together
    recheck: float = 10.0  # seconds after which a stream's token is checked again
    grace: float = 5.0  # seconds for requests in flight when the service ends


class RpcMetrics(Protocol):
    def call(self, rpc: str, code: str, seconds: float | None) -> None:
        """A call has ended; a stream has no seconds."""

    def streams(self, open: int) -> None:
        """So many streams are open now."""


class NoMetrics:
    """The default: nothing is counted."""

    def call(self, rpc: str, code: str, seconds: float | None) -> None: ...

    def streams(self, open: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcContext:
    """What every call can reach."""

    services: Services
    store: Store
    commits: CommitIntake
    feed: ChangeFeed  # what the streams follow; it ends with the server
    metrics: RpcMetrics = field(default_factory=NoMetrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: who asks, and what it can reach."""

    context: RpcContext
    caller: Caller

    @property
    def services(self) -> Services:
        return self.context.services


@dataclass(kw_only=True)
class Stream:
    """One open stream: it waits for changes, has its token checked again, and ends with the service."""

    call: Call
    run: RunInThread
    is_valid: Callable[[], bool]  # whether its token still is
    opened: Callable[[], Awaitable[None]]  # tells the caller that nothing is missed from now on
    recheck: float
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _position: EventPosition | None = None
    _follower: Follower | None = None
    _checked_at: float = field(default_factory=time.monotonic)

    @property
    def feed(self) -> ChangeFeed:
        return self.call.context.feed

    async def join(self, note: Callable[[Changes], None], watched: Collection[Topic] = ()) -> EventPosition:
        """Have all changes noted. Returns when none is missed any more, with the position from which on that is so."""
        loop = asyncio.get_running_loop()

        def notice(changes: Changes) -> None:
            self._position = self._position or changes.position
            note(changes)
            self._news.set()

        def follow(changes: Changes) -> None:
            loop.call_soon_threadsafe(notice, changes)

        self._follower, self._position = follow, self.feed.join(follow, watched)
        await self.check()
        while self._position is None:
            await self.wait()
        return self._position.copy()

    def leave(self) -> None:
        if self._follower is not None:
            self.feed.leave(self._follower)

    async def wait(self) -> None:
        """Until something changed. Raises when the service stops, or the token is no longer valid."""
        while not self._news.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), self.recheck)
            await self.check()
        self._news.clear()
        await self.check()

    async def check(self) -> None:
        if self.feed.is_closed:
            raise Stopping
        if time.monotonic() - self._checked_at >= self.recheck:
            if not await self.run(self.is_valid):
                raise Unauthorized("the token of this stream is no longer valid")
            self._checked_at = time.monotonic()
