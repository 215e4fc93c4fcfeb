# SPDX-License-Identifier: Apache-2.0
"""Metrics of every request by route template, method and status. Plain ASGI."""

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    def __init__(self, app: ASGIApp, *, on_request: Callable[[str, str, int, float], None]) -> None:
        self.app = app
        self.on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        status, began = 500, time.perf_counter()

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            self.on_request(template(scope), method(scope), status, time.perf_counter() - began)


def template(scope: Scope) -> str:
    """The route template, never the path: the number of label values must stay small."""
    return str(getattr(scope.get("route"), "path", "unmatched"))


def method(scope: Scope) -> str:
    return str(scope["method"]) if scope["method"] in METHODS else "OTHER"
