# SPDX-License-Identifier: Apache-2.0
"""HTTP with limits: on the head of a request, on its time, on connections in all and per client, and on what is held.

When a limit is reached, the connection that has waited longest is closed. A real request arrives within
milliseconds, so a thousand half-open connections cannot block it, even from the same address. So it is with memory:
half a head and an unread answer are kept until their connection is closed, and all of them together are bounded.

The server's parser alone would collect headers without limit, and refuses URLs over 64 KB. Hudi's client puts all
pending instants into one URL, and its writer fails on any answer but 200. So a longer URL of the wire is read up to
the wire's own limit, cut there, and the wire reports it.
"""

import asyncio
import ipaddress
import logging
import resource
import time
from asyncio import Transport
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakehand.rest.refusals import Refusals
from lakehand.rest.wire import PREFIX
from lakehand.rest.wire_requests import LONGEST_QUERY

log = logging.getLogger(__name__)
RESERVED_FILES = 512  # for everything but connections: database, storage, logs, pipes
FEWEST = 64
CHECK_INTERVAL = 1.0  # seconds between two checks for slow connections
LONGEST_HEADERS = 128 * 1024  # bytes; bodies have their own limits
LONGEST_PARSED = 65_000  # bytes of a URL that the server's parser accepts
LONGEST_PATH = 1000
LONGEST_KEPT = LONGEST_QUERY + LONGEST_PATH
LONGEST_SKIPPED = 16 * 1024 * 1024  # bytes of a writer's URL before the connection is closed
MOST_PIPELINED = 16  # requests that may wait on one connection
SHORT_HEAD = 4096  # bytes; only of longer ones it is counted what they hold
MOST_UNREAD = 32 * 1024  # bytes of an answer that wait for a client; it is not continued before the client reads on
WIRE = PREFIX.encode()


class Wait(Enum):
    """What the server waits for."""

    HANDSHAKE = "slow-handshake"  # of TLS
    HEAD = "slow-head"
    BODY = "slow-body"
    READING = "slow-reader"  # the client does not read the answer
    NEXT = "idle"  # the next request on an open connection; the server has its own timeout for it
    NOTHING = "served"  # a request is being answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    total: int = 2048
    per_client: int = 1024
    handshake: float = 10.0  # seconds for the handshake of TLS
    head: float = 10.0  # seconds for the head of a request
    body: float = 60.0  # seconds for the rest of it
    reading: float = 60.0  # seconds without any progress in taking an answer
    leaving: float = 10.0  # seconds from closing a connection to cutting it
    held: int = 64 * 1024 * 1024  # bytes of half heads and unread answers, of all connections together

    def seconds(self, wait: Wait) -> float:
        limits = {
            Wait.HANDSHAKE: self.handshake, Wait.HEAD: self.head, Wait.BODY: self.body, Wait.READING: self.reading,
        }  # fmt: skip
        return limits.get(wait, float("inf"))


@dataclass(slots=True)
class Waiting:
    wait: Wait
    since: float
    held: int = 0  # bytes that are kept for it meanwhile


class Connection(Protocol):
    group: str  # its client, see client_group

    def is_closing(self) -> bool: ...
    def give_up(self, wait: Wait) -> None: ...
    def cut(self) -> None: ...


class Connections:
    """All connections of one server; used by its event loop alone."""

    def __init__(self, bounds: Bounds, refusals: Refusals, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.bounds = bounds
        self._refusals = refusals
        self._clock = clock
        self._open: set[Connection] = set()
        self._clients: Counter[str] = Counter()
        self._waiting: dict[Connection, Waiting] = {}  # the one that waits longest comes first
        self._held = 0  # bytes, of all that wait
        self._leaving: dict[Connection, float] = {}
        self._is_started = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check regularly while there are connections."""
        if not self._is_started:
            self._is_started = True
            loop.call_later(CHECK_INTERVAL, self._go_on, loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close_slow()
        self._is_started = False
        if self._open:
            self.start(loop)

    def admit(self, new: Connection, wait: Wait = Wait.HEAD) -> bool:
        """Accept a connection, closing another one if necessary; False when all are being served."""
        of_one = self._clients[new.group] >= self.bounds.per_client
        if of_one or len(self._open) >= self.bounds.total:
            self._refusals.note("connections", new.group, "too many connections: the one that waited longest is closed")
            if not self._make_room(new.group if of_one else None):
                return False
        self._open.add(new)
        self._clients[new.group] += 1
        self.waits(new, wait)
        return True

    def _make_room(self, group: str | None) -> bool:
        victim = next((one for one in self._waiting if group in (None, one.group)), None)
        if victim is None:
            return False
        self._end_wait(victim)
        victim.cut()
        return True

    def waits(self, connection: Connection, wait: Wait) -> None:
        """Record what the connection waits for from now on."""
        self._end_wait(connection)
        if wait is not Wait.NOTHING and connection in self._open:
            self._waiting[connection] = Waiting(wait, self._clock())

    def holds(self, connection: Connection, size: int) -> None:
        """Record how many bytes are kept for a connection that waits. If all hold too much, the eldest are cut."""
        if waiting := self._waiting.get(connection):
            self._held += size - waiting.held
            waiting.held = size
        while self._held > self.bounds.held:
            eldest = next(one for one, waiting in self._waiting.items() if waiting.held)
            self._refusals.note(
                "memory", eldest.group, "clients hold too much memory: the one that waited longest is cut"
            )
            self._end_wait(eldest)
            eldest.cut()

    def _end_wait(self, connection: Connection) -> None:
        if waiting := self._waiting.pop(connection, None):
            self._held -= waiting.held

    def lost(self, connection: Connection) -> None:
        self._end_wait(connection)
        self._leaving.pop(connection, None)
        if connection in self._open:
            self._open.remove(connection)
            self._clients[connection.group] -= 1
            if not self._clients[connection.group]:
                del self._clients[connection.group]

    def close_slow(self) -> None:
        """Close connections that are too slow, and abort closed ones that stay open."""
        now = self._clock()
        for late, waiting in list(self._waiting.items()):
            if now - waiting.since > self.bounds.seconds(waiting.wait):
                self._refusals.note(waiting.wait.value, late.group, "a client that was too slow was cut off")
                self._end_wait(late)
                late.give_up(waiting.wait)
        for gone in [one for one in self._open if one.is_closing()]:
            if now - self._leaving.setdefault(gone, now) > self.bounds.leaving:
                gone.cut()


def client_group(address: str) -> str:
    """The client whose connections count together: an IPv4 address, or an IPv6 /64 network."""
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(read, ipaddress.IPv4Address) or read.is_loopback:
        return address
    if read.ipv4_mapped is not None:
        return str(read.ipv4_mapped)
    return str(ipaddress.ip_network((read, 64), strict=False))


def fitting(bounds: Bounds) -> Bounds:
    """The bounds within the limit on open files, which is raised as far as needed and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.total + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    total = bounds.total if soft == resource.RLIM_INFINITY else min(bounds.total, max(soft - RESERVED_FILES, FEWEST))
    if total < bounds.total:
        log.warning("fewer connections than max_connections: raise ulimit -n", extra={"total": total, "files": soft})
    return replace(bounds, total=total, per_client=min(bounds.per_client, max(total // 2, 1)))


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
