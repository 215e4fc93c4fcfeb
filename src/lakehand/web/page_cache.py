# SPDX-License-Identifier: Apache-2.0
"""Renders a page once for all browsers that fetch it again because something changed. Plain ASGI.

Only these fetches are answered from the cache, and only for a moment: whoever opens a page or sends a form gets a page
that is made for the request. A page that was made before the newest known change is not sent any more: whoever fetches
it because of the change would keep the old one on the screen until the next change.
"""

import asyncio
import time
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

AGAIN = b"x-live"  # the header of a page that fetches itself again
KEEP = 1.0  # seconds
MOST_PAGES = 200

Key = tuple[str, bytes, bytes]  # path, query, cookie: callers do not see each other's pages


@dataclass(slots=True)
class CachedPage:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    read_at: float = float("-inf")  # when its making began: what was stored later is not in it
    messages: list[Message] = field(default_factory=list)


class PageCache:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._pages: dict[Key, CachedPage] = {}
        self._changed_at = float("-inf")

    def note_change(self, seen_at: float) -> None:
        """Something was seen to be changed by a reading that began at this monotonic time."""
        self._changed_at = max(self._changed_at, seen_at)

    def is_fresh(self, page: CachedPage) -> bool:
        return page.read_at >= self._changed_at and time.monotonic() - page.read_at < KEEP

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["method"] == "GET" and AGAIN in headers:
            key = (scope["path"], scope["query_string"], headers.get(b"cookie", b""))
            await self.send_kept(self.page(key), scope, receive, send)
        else:
            await self.app(scope, receive, send)
            if scope["method"] != "GET":
                self.note_change(time.monotonic())

    async def send_kept(self, page: CachedPage, scope: Scope, receive: Receive, send: Send) -> None:
        async with page.lock:
            if not self.is_fresh(page):
                began = time.monotonic()
                page.messages = await self.render(scope, receive)
                page.read_at = began
        for message in page.messages:
            await send(message)

    def page(self, key: Key) -> CachedPage:
        if key not in self._pages and len(self._pages) >= MOST_PAGES:
            self._pages = {
                known: page for known, page in self._pages.items() if self.is_fresh(page) or page.lock.locked()
            }
        return self._pages.setdefault(key, CachedPage())

    async def render(self, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, keep)
        return messages
