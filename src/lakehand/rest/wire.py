# SPDX-License-Identifier: Apache-2.0
"""The Hudi wire: always answers 200 with a small JSON body, because anything else fails the writer.

A writer calls this while it holds its table's lock. Plain ASGI, in front of the framework, to be fast.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.domain.notifications import Notification
from lakehand.rest.access import address_of
from lakehand.rest.callback_body import TopTexts
from lakehand.rest.context import ApiContext
from lakehand.rest.group_commit import GroupCommit
from lakehand.rest.wire_requests import ACTIONS, RequestParser, WireRequest, token_of

PREFIX = "/v1/hoodie/service/"
CALLBACK = PREFIX + "callback"
PIECE = 1024  # bytes of one body that are parsed between two turns of the event loop
UNIT = 4096  # bytes of a query that count as one waiting request: bounds what waits for a slow database
WANTED = ("basePath", "tableName")
KEY_HEADER = b"hudi-callback-key"
TIMEOUT_ANSWER = (
    b'{"stored":false,"message":"the database has not answered in time; this is stored as soon as it does, and tables '
    b'that are registered are probed at their heartbeat timeout in any case"}'
)
UNSTORED_ANSWER = (
    b'{"stored":false,"message":"not stored, and not kept: the service cannot write to its database now, and its log '
    b'says why; registered tables are probed when it can, any other one must be sent or registered again"}'
)


class HudiWire:
    """Handles the writers' requests; everything else goes on to the app."""

    def __init__(self, app: ASGIApp, *, context: ApiContext, timeout: float = 2.0) -> None:
        self.app = app
        self.context = context
        self.parser = RequestParser(context.security, context.engines)
        self.group_commit: GroupCommit[WireRequest, bytes] = GroupCommit(
            self.record, timeout_answer=TIMEOUT_ANSWER, unstored_answer=UNSTORED_ANSWER, timeout=timeout
        )
        self.security = context.security
        self.turn = asyncio.Lock()  # one piece of one body per turn of the event loop, however many bodies there are

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_from_hudi(scope):
            return await self.app(scope, receive, send)
        if scope["method"] == "POST":
            return await self.callback(scope, receive, send)
        return await self.request(scope, send)

    def record(self, requests: Sequence[WireRequest]) -> Sequence[bytes]:
        """The JSON answer to each request; one that says "stored" is durable. Equal requests are stored once.

        Runs in the group commit's thread.
        """
        parsed = {request: self.parser.parse(request) for request in dict.fromkeys(requests)}
        receipts = self.context.intake.record(list(parsed.values()))
        sources = [p.source if isinstance(p, Notification) else "unread" for p in parsed.values()]
        outcomes = Counter((s, "stored" if r.stored else "refused") for s, r in zip(sources, receipts, strict=True))
        for (source, outcome), times in outcomes.items():
            self.context.on_notifications(source, outcome, times)
        answers = {
            request: b'{"stored":true,"table":%d}' % (r.table or 0) if r.stored else refusal_answer(r.message)
            for request, r in zip(parsed, receipts, strict=True)
        }
        return [answers[request] for request in requests]

    async def request(self, scope: Scope, send: Send) -> None:
        began = time.perf_counter()
        query: bytes = scope["query_string"]
        request = WireRequest(scope["path"][len(PREFIX) :].rstrip("/"), query, address=address_of(scope))
        await answer(send, await self.group_commit.put(request, weight=1 + len(query) // UNIT))
        self.count(request.kind, "GET", began)

    async def callback(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = WireRequest("callback", scope["query_string"], header(scope, KEY_HEADER), address=address_of(scope))
        if self.security.admits_callback(request.key, token_of(request.query)):  # without the key no body is read
            request = await self.read_body(request, scope, receive)
        await answer(send, await self.group_commit.put(request))
        self.count("callback", "POST", began)

    async def read_body(self, request: WireRequest, scope: Scope, receive: Receive) -> WireRequest:
        """Read until the few texts that matter are found; the server discards the rest of the body."""
        texts, most, size = TopTexts(WANTED), self.security.max_callback_body, 0
        while not texts.is_over and size <= most:
            message = await receive()
            body = message.get("body", b"")
            await self.feed(texts, body[: most - size])
            size += len(body)
            if not message.get("more_body", False):
                break
        declared = header(scope, b"content-length")[:18]
        is_big = max(size, int(declared) if declared.isdecimal() else 0) > most
        return request._replace(
            base_path=texts.found.get("basePath", ""),
            table_name=texts.found.get("tableName", ""),
            problem=f"the body of a commit callback is larger than {most} bytes" if is_big else "",
        )

    async def feed(self, texts: TopTexts, body: bytes) -> None:
        """In pieces, so that other requests are answered in between."""
        for at in range(0, len(body), PIECE):
            async with self.turn:
                texts.feed(body[at : at + PIECE])
                if texts.is_over:
                    return
                await asyncio.sleep(0)

    def count(self, kind: str, method: str, began: float) -> None:
        route = PREFIX + (kind if kind in ACTIONS or method == "POST" else "{unknown}")
        self.context.on_request(route, method, 200, time.perf_counter() - began)


def is_from_hudi(scope: Scope) -> bool:
    """True for requests whose sender fails on any answer but 200."""
    if not scope["path"].startswith(PREFIX):
        return False
    return scope["method"] in ("GET", "HEAD") or (scope["method"] == "POST" and scope["path"].rstrip("/") == CALLBACK)


def header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


async def answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refusal_answer(message: str) -> bytes:
    return json.dumps({"stored": False, "message": message[:500]}).encode()
