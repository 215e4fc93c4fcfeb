# SPDX-License-Identifier: Apache-2.0
"""HTTP with bounds on the head of a request, on its time, and on the number of connections.

The server's parser alone would collect a header for ever, and refuses addresses over 64 KB. Hudi's client puts all
pending instants into one address, and its writer fails on any answer but 200. So a longer address of the wire is read
up to the wire's own bound, and what is longer still is cut there, and the wire says so.
"""

from asyncio import Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakehand.app.connections import Connections, Wait, client_group
from lakehand.rest.wire import PREFIX
from lakehand.rest.wire_requests import LONGEST_QUERY

LONGEST_HEADERS = 128 * 1024  # bytes; what a body has is bounded by those who read it
LONGEST_PARSED = 65_000  # bytes of an address that the parser of the server takes
LONGEST_PATH = 1000
LONGEST_KEPT = LONGEST_QUERY + LONGEST_PATH
LONGEST_SKIPPED = 16 * 1024 * 1024  # bytes of a writer's address before the connection is closed
MOST_PIPELINED = 16  # requests that may wait on one connection
WIRE = PREFIX.encode()


def refusal(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


TOO_LARGE = refusal("431 Request Header Fields Too Large")
TOO_SLOW = refusal("408 Request Timeout")
TOO_MANY = refusal("503 Service Unavailable")


def bounded_http(kept: Connections) -> "type[BoundedHttp]":
    """The protocol of a server whose connections are kept there."""

    class Bounded(BoundedHttp):
        kept_by = kept

    return Bounded


class BoundedHttp(HttpToolsProtocol):
    kept_by: Connections
    group = ""
    _wait = Wait.HEAD
    _is_fresh = True  # no request has come yet
    _is_begun = False  # a request has begun and is not complete
    _is_head = True
    _is_blocked = False  # the client does not take our answer
    _head_size = 0
    _url_size = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.group = client_group(self.client[0] if self.client else "")
        self.kept_by.start(self.loop)
        if not self.kept_by.admit(self):
            self.transport.write(TOO_MANY)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.kept_by.lost(self)
        super().connection_lost(exc)

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def give_up(self, wait: Wait) -> None:
        if wait is Wait.HEAD:
            self.transport.write(TOO_SLOW)
            self.transport.close()
        else:
            self.cut()

    def cut(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_head:
            self._head_size += len(data)
        super().data_received(data)
        if self._is_begun and self._is_head and self._is_too_long():
            self.transport.write(TOO_LARGE)
            self.transport.close()
        self._tell()

    def _is_too_long(self) -> bool:
        longest = LONGEST_SKIPPED if self.url.startswith(WIRE) else LONGEST_PARSED
        return self._url_size > longest or self._head_size - self._url_size > LONGEST_HEADERS

    def _tell(self) -> None:
        wait = self._waits_for()
        if wait is not self._wait:
            self._wait = wait
            self.kept_by.waits(self, wait)

    def _waits_for(self) -> Wait:
        if self._is_blocked:
            return Wait.READING
        if self._is_begun:
            return Wait.HEAD if self._is_head else Wait.BODY
        if self._is_fresh:
            return Wait.HEAD
        return Wait.NEXT if self.cycle.response_complete else Wait.NOTHING

    def on_message_begin(self) -> None:
        self._is_begun, self._url_size = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._url_size += len(url)
        if len(self.url) <= LONGEST_KEPT:
            super().on_url(url)

    def on_headers_complete(self) -> None:
        self._is_fresh = self._is_head = False
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError(f"more than {MOST_PIPELINED} requests wait on one connection")
        if len(self.url) > LONGEST_PARSED and self.url.startswith(WIRE):
            self._take_long_address()
        else:
            super().on_headers_complete()

    def _take_long_address(self) -> None:
        path, _, query = self.url.partition(b"?")
        self.url = path[:LONGEST_PATH]
        super().on_headers_complete()
        self.scope["query_string"] = query[: LONGEST_QUERY + 1]  # before the request's task has its first turn

    def on_message_complete(self) -> None:
        self._is_begun, self._is_head, self._head_size = False, True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._tell()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_blocked = True
        self._tell()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_blocked = False
        self._tell()
