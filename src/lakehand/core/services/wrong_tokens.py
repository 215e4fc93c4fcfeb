# SPDX-License-Identifier: Apache-2.0
"""Stores requests without a valid token as events: the address and the route, never the token.

Equal ones are one event with a count, written together at most once a second: guessing tokens does not load the
database.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from datetime import datetime

from lakehand.core.ports import Events
from lakehand.core.rate_limits import EventThrottle
from lakehand.domain.errors import LakehandError
from lakehand.domain.events import Event

log = logging.getLogger(__name__)
PAUSE = 1.0  # seconds between two writes
MOST_KINDS = 100  # different addresses and routes in one write
MOST_TIMES = 1000  # of one event in one write
OTHERS = "other addresses"


class WrongTokens:
    """Collected by the event loop of one interface, written by a thread of its own."""

    def __init__(self, events: Events, now: Callable[[], datetime]) -> None:
        self._events = events
        self._now = now
        self._noted: Counter[tuple[str, str]] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._throttle = EventThrottle()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wrong-tokens")

    def note(self, address: str, route: str) -> None:
        kind = (address, route)
        if kind not in self._noted and len(self._noted) >= MOST_KINDS:
            kind = (OTHERS, "")
        self._noted[kind] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._write_soon)

    def _write_soon(self) -> "Future[None]":
        self._timer = None
        noted, self._noted = self._noted, Counter()
        return self._thread.submit(self._write, noted)

    def _write(self, noted: Counter[tuple[str, str]]) -> None:
        try:
            now = self._now()
            events = [e for kind, times in noted.items() for e in self._counted(unauthorized(*kind), times, now)]
            self._events.add(events, now=now)
        except LakehandError as error:
            log.warning("wrong tokens were not stored", extra={"count": noted.total(), "error": str(error)})

    def _counted(self, event: Event, times: int, now: datetime) -> list[Event]:
        return self._throttle.bounded([event], now) * min(times, MOST_TIMES)

    def close(self, timeout: float = 5.0) -> None:
        """Write what was noted, then stop."""
        if self._timer is not None:
            self._timer.cancel()
            with suppress(
                FutureTimeout, RuntimeError
            ):  # RuntimeError: the interpreter ends, and starts no more threads
                self._write_soon().result(timeout)
        self._thread.shutdown(wait=False)


def unauthorized(address: str, route: str) -> Event:
    message = f"a request without a valid token was refused: {route or 'various routes'} from {address}"
    fingerprint = hashlib.sha256(f"api.unauthorized\n{address}\n{route}".encode()).hexdigest()[:40]
    detail = {"address": address, "route": route}
    return Event(kind="api.unauthorized", message=message, detail=detail, fingerprint=fingerprint)
