# SPDX-License-Identifier: Apache-2.0
"""Renders a page once for all browsers that fetch it again because something changed. Plain ASGI.

Only these fetches are answered from the cache, and only for a moment: whoever opens a page or sends a form gets a page
that is made for the request.
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
    made_at: float = float("-inf")
    messages: list[Message] = field(default_factory=list)

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.made_at < KEEP


class PageCache:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._pages: dict[Key, CachedPage] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["method"] == "GET" and AGAIN in headers:
            key = (scope["path"], scope["query_string"], headers.get(b"cookie", b""))
            await self.send_kept(self.page(key), scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def send_kept(self, page: CachedPage, scope: Scope, receive: Receive, send: Send) -> None:
        async with page.lock:
            if not page.is_fresh:
                page.messages = await self.render(scope, receive)
                page.made_at = time.monotonic()
        for message in page.messages:
            await send(message)

    def page(self, key: Key) -> CachedPage:
        if key not in self._pages and len(self._pages) >= MOST_PAGES:
            self._pages = {known: page for known, page in self._pages.items() if page.is_fresh or page.lock.locked()}
        return self._pages.setdefault(key, CachedPage())

    async def render(self, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, keep)
        return messages
