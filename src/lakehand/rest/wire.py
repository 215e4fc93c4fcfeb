# SPDX-License-Identifier: Apache-2.0
"""The Hudi wire: answers 200 with a small JSON body whatever happens, because anything else harms the writer.

A writer calls this while it holds its table's lock. Bare ASGI, in front of the framework, to stay out of its way.
"""

import asyncio
import time

from starlette.types import ASGIApp, Receive, Scope, Send

from lakehand.rest.access import address_of
from lakehand.rest.batching import Batcher
from lakehand.rest.callback_body import TopTexts
from lakehand.rest.faces import Faces
from lakehand.rest.wire_desk import SORRY, UNSTORED, WireDesk
from lakehand.rest.wire_letters import Letter, Reader, token_of

PREFIX = "/v1/hoodie/service/"
CALLBACK = PREFIX + "callback"
PIECE = 2 * 1024  # bytes of one body that are read between two turns of the event loop
UNIT = 4096  # bytes of a query that count as one waiting letter: what waits for a slow database is bounded
WANTED = ("basePath", "tableName")
KNOWN = frozenset({"compact", "cluster", "clean", "empty"})
EMPTY = b'{"stored":false}'
KEY_HEADER = b"hudi-callback-key"


class HudiWire:
    """Takes the writers' requests out of the stream; everything else goes on to the app."""

    def __init__(self, app: ASGIApp, *, faces: Faces, patience: float = 2.0) -> None:
        reader = Reader(faces.security, faces.engines)
        desk = WireDesk(intake=faces.intake, reader=reader, on_notifications=faces.on_notifications)
        self.app = app
        self.batcher: Batcher[Letter, bytes] = Batcher(desk.record, sorry=SORRY, unstored=UNSTORED, patience=patience)
        self.on_request = faces.on_request
        self.security = faces.security
        self.has_empty = faces.bench
        self.turn = asyncio.Lock()  # one piece of one body per turn of the event loop, however many bodies there are

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            return await self.app(scope, receive, send)
        if scope["method"] in ("GET", "HEAD"):
            return await self.request(scope, send)
        if scope["method"] == "POST" and scope["path"].rstrip("/") == CALLBACK:
            return await self.callback(scope, receive, send)
        return await self.app(scope, receive, send)

    async def request(self, scope: Scope, send: Send) -> None:
        began = time.perf_counter()
        kind: str = scope["path"][len(PREFIX) :].rstrip("/")
        if kind == "empty" and self.has_empty:
            await answer(send, EMPTY)
        else:
            query: bytes = scope["query_string"]
            await answer(
                send,
                await self.batcher.put(Letter(kind, query, address=address_of(scope)), weight=1 + len(query) // UNIT),
            )
        self.count(kind, "GET", began)

    async def callback(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        letter = Letter("callback", scope["query_string"], header(scope, KEY_HEADER), address=address_of(scope))
        if self.security.admits_callback(letter.key, token_of(letter.query)):  # a stranger's body is not even read
            letter = await self.read_body(letter, scope, receive)
        await answer(send, await self.batcher.put(letter))
        self.count("callback", "POST", began)

    async def read_body(self, letter: Letter, scope: Scope, receive: Receive) -> Letter:
        """With the few texts that matter. The rest of the body is left to the server to throw away."""
        texts, most, size = TopTexts(WANTED), self.security.max_callback_body, 0
        while not texts.is_over and size <= most:
            message = await receive()
            body = message.get("body", b"")
            await self.feed(texts, body[: most - size])
            size += len(body)
            if not message.get("more_body", False):
                break
        is_big = max(size, declared_size(scope)) > most
        return letter._replace(
            base_path=texts.found.get("basePath", ""),
            table_name=texts.found.get("tableName", ""),
            trouble=f"the body of a commit callback is larger than {most} bytes" if is_big else "",
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
        route = PREFIX + (kind if kind in KNOWN or method == "POST" else "{unknown}")
        self.on_request(route, method, 200, time.perf_counter() - began)


def header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


def declared_size(scope: Scope) -> int:
    length = header(scope, b"content-length")[:18]
    return int(length) if length.isdecimal() else 0


async def answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
