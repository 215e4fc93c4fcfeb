# SPDX-License-Identifier: Apache-2.0
"""Counts refused requests and connections, and logs them at a bounded rate."""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
PAUSE = 10.0  # seconds between two log lines of one reason
SHOWN = 80  # characters of a foreign value that are shown


class Refusals:
    """``on_refusal`` gets the reason and what was refused: a host, an origin, a client's address."""

    def __init__(self, on_refusal: Callable[[str, str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_refusal = on_refusal
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: dict[str, tuple[float, int]] = {}  # reason → last logged at, not logged since

    def note(self, reason: str, name: str, advice: str) -> None:
        shown = ascii(name[:SHOWN])[1:-1]
        self._on_refusal(reason, shown)
        more = self._not_logged(reason)
        if more is not None:
            log.warning(advice, extra={"refused": reason, "what": shown, "not_logged": more})

    def _not_logged(self, reason: str) -> int | None:
        """How many were refused since the last log line; None if it is too early for another."""
        now = self._clock()
        with self._lock:
            at, count = self._logged.get(reason, (now - PAUSE, 0))
            if now - at < PAUSE:
                self._logged[reason] = (at, count + 1)
                return None
            self._logged[reason] = (now, 0)
            return count
