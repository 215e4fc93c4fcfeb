# SPDX-License-Identifier: Apache-2.0
"""Bounds every request body before a route sees it. Plain ASGI, so that requests without a body cost nothing."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakehand.rest.errors import problem

MOST_MARKS = 2000  # commas, colons and brackets: the cost of parsing grows with them, not with the bytes
MARKS = (b",", b":", b"[", b"{")


class BoundedBodies:
    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not announces_body(scope):
            return await self.app(scope, receive, send)
        body = await self.read(receive)
        if body is None:
            return None  # the client disconnected: half a request must not change anything
        if len(body) > self.most or marks_in(body) > MOST_MARKS:
            answer = problem(
                413, "too-large", f"the body is too large: send at most {self.most} bytes and {MOST_MARKS} values"
            )
            return await answer(scope, receive, send)
        return await self.app(scope, replayed(body, receive), send)

    async def read(self, receive: Receive) -> bytes | None:
        """The whole body, or its first bytes up to one more than allowed; None if it was cut off."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self.most or not message.get("more_body", False):
                return bytes(body[: self.most + 1])


def marks_in(body: bytes) -> int:
    return sum(body.count(mark) for mark in MARKS)


def announces_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again
