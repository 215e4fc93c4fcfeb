# SPDX-License-Identifier: Apache-2.0
"""Renders a page once for all browsers of a session that fetch it again because something changed. Plain ASGI.

Only these fetches are answered from the cache, and only for a moment: whoever opens a page or sends a form gets a page
that is made for the request. A page that was made before the newest known change is not sent any more: whoever fetches
it because of the change would keep the old one on the screen until the next change.

Whoever has no valid session fills no memory here: such requests pass by. So do files and streams.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakehand.domain.errors import LakehandError
from lakehand.web.access import COOKIE

AGAIN = b"x-live"  # the header of a page that fetches itself again
KEEP = 1.0  # seconds
MOST_PAGES = 200
LARGEST_PAGE = 1024 * 1024  # bytes
MOST_BYTES = 16 * 1024 * 1024  # of all pages

Key = tuple[str, bytes, str]  # path, query, session: callers do not see each other's pages


@dataclass(slots=True)
class CachedPage:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    read_at: float = float("-inf")  # when its making began: what was stored later is not in it
    messages: list[Message] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(len(message.get("body", b"")) for message in self.messages)


class PageCache:
    def __init__(self, app: ASGIApp, *, is_session: Callable[[str], bool]) -> None:
        self.app = app
        self.is_session = is_session  # whether the cookie names a valid session; may ask the database
        self._pages: dict[Key, CachedPage] = {}  # the eldest comes first
        self._changed_at = float("-inf")

    def note_change(self, seen_at: float) -> None:
        """Something was seen to be changed by a reading that began at this monotonic time."""
        self._changed_at = max(self._changed_at, seen_at)

    def is_fresh(self, page: CachedPage) -> bool:
        return page.read_at >= self._changed_at and time.monotonic() - page.read_at < KEEP

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_again = scope["method"] == "GET" and any(name == AGAIN for name, _ in scope["headers"])
        session = Request(scope).cookies.get(COOKIE, "") if is_again else ""
        if is_again and await self.has_session(session):
            await self.send_kept((scope["path"], scope["query_string"], session), scope, receive, send)
        else:
            await self.app(scope, receive, send)
            if scope["method"] != "GET":
                self.note_change(time.monotonic())

    async def has_session(self, session: str) -> bool:
        try:
            return await run_in_threadpool(self.is_session, session)
        except LakehandError:
            return False  # the database is away: the page says so

    async def send_kept(self, key: Key, scope: Scope, receive: Receive, send: Send) -> None:
        page = self._pages.setdefault(key, CachedPage())
        async with page.lock:
            if not self.is_fresh(page):
                began, page.messages = time.monotonic(), []
                try:
                    page.messages = await self.render(scope, receive, send)
                    page.read_at = began
                finally:
                    self.bound(key, page)
        for message in page.messages:
            await send(message)

    async def render(self, scope: Scope, receive: Receive, send: Send) -> list[Message]:
        """The answer, if it can be kept. Any other one is sent at once, as it comes: then the list is empty."""
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            if messages or is_whole_page(message):
                messages.append(message)
            else:
                await send(message)

        await self.app(scope, receive, keep)
        return messages

    def bound(self, key: Key, page: CachedPage) -> None:
        """Keep a page that was just made for a moment, and drop the eldest if all are too many or too large."""
        self._pages.pop(key, None)
        if page.messages:
            self._pages[key] = page
            asyncio.get_running_loop().call_later(KEEP, self.drop_stale, key)
        while len(self._pages) > MOST_PAGES or sum(one.size for one in self._pages.values()) > MOST_BYTES:
            del self._pages[next(iter(self._pages))]

    def drop_stale(self, key: Key) -> None:
        if key in self._pages and not self.is_fresh(self._pages[key]):
            del self._pages[key]


def is_whole_page(start: Message) -> bool:
    """A page of known, moderate size; neither a file that is sent in pieces nor a stream."""
    if start["type"] != "http.response.start" or start["status"] != 200:
        return False
    headers = dict(start["headers"])
    size = headers.get(b"content-length", b"")
    is_page = headers.get(b"content-type", b"").startswith(b"text/html")
    return is_page and size.isdigit() and int(size) <= LARGEST_PAGE
