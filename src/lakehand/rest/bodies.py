# SPDX-License-Identifier: Apache-2.0
"""Bounds every request body before a route sees it. Plain ASGI, so that requests without a body cost nothing."""

from collections.abc import Mapping
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakehand.rest.errors import problem

MOST_DELIMITERS = 2000  # commas, colons and brackets: the cost of parsing grows with them, not with the bytes
DELIMITERS = (b",", b":", b"[", b"{")


class Bound(NamedTuple):
    size: int  # bytes
    delimiters: int = MOST_DELIMITERS


class BoundedBodies:
    """``others``: paths whose bodies have bounds of their own."""

    def __init__(self, app: ASGIApp, *, most: int, others: Mapping[str, Bound] | None = None) -> None:
        self.app = app
        self.bound = Bound(most)
        self.others = others or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope.get("headers", ()))
        if scope["type"] != "http" or not announced:
            return await self.app(scope, receive, send)
        bound = self.others.get(scope.get("path", ""), self.bound)
        body = await read(receive, bound.size)
        if body is None:
            return None  # the client disconnected: half a request must not change anything
        if len(body) > bound.size or sum(map(body.count, DELIMITERS)) > bound.delimiters:
            most = f"{bound.size} bytes and {bound.delimiters} values"
            answer = problem(413, "too-large", f"the body is too large: send at most {most}")
            return await answer(scope, receive, send)
        return await self.app(scope, replayed(body, receive), send)


async def read(receive: Receive, most: int) -> bytes | None:
    """The whole body, or its first bytes up to one more than allowed; None if it was cut off."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most or not message.get("more_body", False):
            return bytes(body[: most + 1])


def replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again
