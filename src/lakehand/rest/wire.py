# SPDX-License-Identifier: Apache-2.0
"""The Hudi wire: always answers 200 with a small JSON body, because anything else fails the writer.

A writer calls this while it holds its table's lock. Plain ASGI, in front of the framework, to be fast. A commit
callback has the statistics of every written file, megabytes of them, behind the few texts that matter: none are kept.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any
from weakref import finalize

import ijson
from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.domain.notifications import Notification
from lakehand.rest.context import ApiContext
from lakehand.rest.dependencies import address_of
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

LONGEST_TEXT = 4096
LONGEST_SKIPPED = 128 * 1024  # bytes of one value; the parser keeps a value until its end
MOST_KEYS = 1000  # at the top; Hudi sends six
MOST_VALUES = 200_000  # keys, values and brackets; the statistics of nine thousand files

# The C backend scans a text again from its start for every piece: a megabyte of escapes takes seconds.
_PARSER: Any = ijson.get_backend("python")
_DEPTH = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}


class HudiWire:
    """Handles the writers' requests; everything else goes on to the app."""

    def __init__(self, app: ASGIApp, *, context: ApiContext) -> None:
        self.app = app
        self.context = context
        self.parser = RequestParser(context.security, context.engines)
        self.group_commit: GroupCommit[WireRequest, bytes] = GroupCommit(
            self.record, timeout_answer=TIMEOUT_ANSWER, unstored_answer=UNSTORED_ANSWER, timeout=context.wire_timeout
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

    async def feed(self, texts: "TopTexts", body: bytes) -> None:
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


class TopTexts:
    """Feed it pieces of any size; ``found`` fills, and ``is_over`` says that more pieces cannot change it."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.found: dict[str, str] = {}
        self.is_over = False
        self._wanted = frozenset(wanted)
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._parser: Any = _PARSER.basic_parse_coro(self._events, use_float=True)
        self._depth = self._keys = self._values = self._silent = 0
        self._key: str | None = None
        finalize(self, close, self._parser)

    def feed(self, piece: bytes) -> None:
        if self.is_over:
            return
        try:
            self._parser.send(piece)
        except (ijson.JSONError, StopIteration, ValueError, ArithmeticError):  # no JSON, or after its end
            self.is_over = True
        self._silent = 0 if self._events else self._silent + len(piece)
        for event, value in self._events:
            self._take(event, value)
        self._values += len(self._events)
        self._events.clear()
        exceeds = self._values > MOST_VALUES or self._keys > MOST_KEYS or self._silent > LONGEST_SKIPPED
        self.is_over = self.is_over or exceeds or len(self.found) == len(self._wanted)

    def _take(self, event: str, value: Any) -> None:
        self._depth += _DEPTH.get(event, 0)
        if self._depth != 1:
            return
        if event == "map_key":
            self._key, self._keys = value, self._keys + 1
        elif event == "string" and self._key in self._wanted and len(value) <= LONGEST_TEXT:
            # Half of a surrogate pair cannot be stored or sent.
            self.found.setdefault(self._key, value.encode("utf-8", "replace").decode())


def close(parser: Any) -> None:
    """A parser complains about an unfinished document when it is collected."""
    with suppress(ijson.JSONError, ValueError):
        parser.close()
