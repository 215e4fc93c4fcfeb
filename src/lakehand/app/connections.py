# SPDX-License-Identifier: Apache-2.0
"""Limits the connections of the HTTP server: in all, per client, and how long each may keep the server waiting.

When a limit is reached, the connection that has waited longest is closed. A real request arrives within
milliseconds, so a thousand half-open connections cannot block it, even from the same address. So it is with memory:
half a head and an unread answer are kept until their connection is closed, and all of them together are bounded.
"""

import asyncio
import ipaddress
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from lakehand.rest.refusals import Refusals

log = logging.getLogger(__name__)
RESERVED_FILES = 512  # for everything but connections: database, storage, logs, pipes
FEWEST = 64
CHECK_INTERVAL = 1.0  # seconds between two checks for slow connections


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
