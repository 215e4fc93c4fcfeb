# SPDX-License-Identifier: Apache-2.0
"""HTTP with limits on the head of a request, on its time, and on the number of connections.

The server's parser alone would collect headers without limit, and refuses URLs over 64 KB. Hudi's client puts all
pending instants into one URL, and its writer fails on any answer but 200. So a longer URL of the wire is read up to
the wire's own limit, cut there, and the wire reports it.
"""

from asyncio import Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakehand.app.connections import Connections, Wait, client_group
from lakehand.rest.wire import PREFIX
from lakehand.rest.wire_requests import LONGEST_QUERY

LONGEST_HEADERS = 128 * 1024  # bytes; bodies have their own limits
LONGEST_PARSED = 65_000  # bytes of a URL that the server's parser accepts
LONGEST_PATH = 1000
LONGEST_KEPT = LONGEST_QUERY + LONGEST_PATH
LONGEST_SKIPPED = 16 * 1024 * 1024  # bytes of a writer's URL before the connection is closed
MOST_PIPELINED = 16  # requests that may wait on one connection
SHORT_HEAD = 4096  # bytes; only of longer ones it is counted what they hold
MOST_UNREAD = 32 * 1024  # bytes of an answer that wait for a client; it is not continued before the client reads on
WIRE = PREFIX.encode()


def refusal(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


TOO_LARGE = refusal("431 Request Header Fields Too Large")
TOO_SLOW = refusal("408 Request Timeout")
TOO_MANY = refusal("503 Service Unavailable")


def bounded_http(connections: Connections) -> "type[BoundedHttp]":
    """The protocol class of a server with these connections."""

    class Bounded(BoundedHttp):
        connections_of_server = connections

    return Bounded


class BoundedHttp(HttpToolsProtocol):
    connections_of_server: Connections
    group = ""
    _wait = Wait.HEAD
    _is_fresh = True  # no request has come yet
    _is_begun = False  # a request has begun and is not complete
    _is_head = True
    _is_blocked = False  # the client does not read the answer
    _head_size = 0
    _url_size = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(MOST_UNREAD)
        self.group = client_group(self.client[0] if self.client else "")
        self.connections_of_server.start(self.loop)
        if not self.connections_of_server.admit(self):
            self.transport.write(TOO_MANY)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of_server.lost(self)
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
        self._report_wait()
        if self._is_begun and self._is_head and self._head_size > SHORT_HEAD:
            self.connections_of_server.holds(self, len(self.url) + max(0, self._head_size - self._url_size))

    def _is_too_long(self) -> bool:
        longest = LONGEST_SKIPPED if self.url.startswith(WIRE) else LONGEST_PARSED
        return self._url_size > longest or self._head_size - self._url_size > LONGEST_HEADERS

    def _report_wait(self) -> None:
        wait = self._waits_for()
        if wait is not self._wait:
            self._wait = wait
            self.connections_of_server.waits(self, wait)

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
        self.scope["query_string"] = query[: LONGEST_QUERY + 1]  # before the request's task starts

    def on_message_complete(self) -> None:
        self._is_begun, self._is_head, self._head_size = False, True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._report_wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_blocked = True
        self._report_wait()
        self.connections_of_server.holds(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_blocked = False
        self._report_wait()
