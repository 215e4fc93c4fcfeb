# SPDX-License-Identifier: Apache-2.0
"""Bounds every request body before a route sees it. Plain ASGI, so that requests without a body cost nothing."""

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakehand.rest.errors import problem

MOST_DELIMITERS = 2000  # commas, colons and brackets: the cost of parsing grows with them, not with the bytes
DELIMITERS = (b",", b":", b"[", b"{")


class BoundedBodies:
    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope.get("headers", ()))
        if scope["type"] != "http" or not announced:
            return await self.app(scope, receive, send)
        body = await read(receive, self.most)
        if body is None:
            return None  # the client disconnected: half a request must not change anything
        if exceeds(body, self.most, MOST_DELIMITERS):
            return await too_large(self.most, MOST_DELIMITERS)(scope, receive, send)
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


def exceeds(body: bytes, most: int, delimiters: int) -> bool:
    return len(body) > most or sum(map(body.count, DELIMITERS)) > delimiters


def too_large(most: int, delimiters: int) -> Response:
    return problem(413, "too-large", f"the body is too large: send at most {most} bytes and {delimiters} values")


def replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again
