# SPDX-License-Identifier: Apache-2.0
"""How a plugin behaves in this process: its errors, the calls that do not come back, and how long it is left alone."""

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from lakehand.domain.errors import PluginStuck

SLOW = 5.0  # seconds that one call may take before people are told
RECENT = 600.0  # seconds for which a slow call is spoken of
IN_A_ROW = 3  # calls that failed one after the other make a failing plugin
MOST_HUNG = 16  # threads that one plugin may keep
FIRST_REST, LONGEST_REST = 60.0, 3600.0  # seconds without a call after it hung; twice as long each time
TRIAL = 90.0  # seconds that all others wait while one call tries again


@dataclass(kw_only=True)
class PluginHealth:
    """Written by the threads that call the plugin, read by whoever lists it."""

    kind: str
    name: str
    tolerance: int = 1  # so many hanging calls, with no good one between them, and it is left alone
    errors: int = 0
    hangs: int = 0
    last_error: str = ""
    last_error_at: datetime | None = None
    _in_a_row: dict[str, int] = field(default_factory=dict)  # method → failures since it last succeeded
    _strikes: int = 0
    _hung: dict[object, str] = field(default_factory=dict)  # calls that have not come back: what, and since when
    _last_hang: str = ""
    _slow: tuple[str, float] = ("", 0.0)  # what was slow, and when, on the monotonic clock
    _rests_until: float = 0.0  # 0: it is asked
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, method: str) -> None:
        """Raises PluginStuck while the plugin is left alone; after that one call may try."""
        if not self._rests_until:
            return
        with self._lock:
            now = time.monotonic()
            left = self._rests_until - now
            if left <= 0:
                self._rests_until = now + TRIAL
                return
        raise PluginStuck(f"{self.name} is not asked to {method}: {self._last_hang}", again=timedelta(seconds=left))

    def answered(self, method: str, seconds: float) -> None:
        """A call came back in time, whatever it said."""
        if seconds > SLOW:
            self._slow = (f"{method} took {seconds:.0f} s at {clock_time()}", time.monotonic())
        if self._strikes:
            self._trust_again()

    def succeeded(self, method: str) -> None:
        """An engine that tells its clock and never a status is failing all the same."""
        if method in self._in_a_row:
            self._in_a_row.pop(method, None)

    def failed(self, method: str, error: BaseException) -> None:
        with self._lock:
            self.errors += 1
            self._in_a_row[method] = self._in_a_row.get(method, 0) + 1
            self.last_error = f"{method}: {type(error).__name__}: {error}"[:500]
            self.last_error_at = datetime.now(timezone.utc)

    def has_hung(self, call: object, method: str, seconds: float) -> None:
        """Nobody waits for this call any more."""
        with self._lock:
            self.hangs += 1
            self._strikes += 1
            self._last_hang = f"{method} had not come back after {seconds:.0f} s at {clock_time()}"
            self._hung[call] = self._last_hang
            if self._strikes >= self.tolerance or len(self._hung) >= MOST_HUNG:
                doubled = 2 ** min(max(self._strikes - self.tolerance, 0), 10)
                self._rests_until = time.monotonic() + min(FIRST_REST * doubled, LONGEST_REST)

    def came_back(self, call: object, *, is_stopped: bool) -> None:
        """A call that was given up has ended: by itself, so that it is worth trying, or because it was stopped."""
        with self._lock:
            self._hung.pop(call, None)
            if self._rests_until and not is_stopped:
                self._rests_until = time.monotonic()

    def state(self) -> tuple[str, str]:
        """One word, and why."""
        if self._rests_until:
            return "stuck", f"{self._last_hang}; asked again {self._next_trial()}"
        failures = max(self._in_a_row.copy().values(), default=0)
        if failures >= IN_A_ROW:
            return "failing", f"the last {failures} calls failed; {self.last_error}"
        if self._hung:
            return "slow", "; ".join(list(self._hung.values())[:3])
        if self._slow[0] and time.monotonic() - self._slow[1] < RECENT:
            return "slow", self._slow[0]
        return "on", ""

    def _next_trial(self) -> str:
        left = max(self._rests_until - time.monotonic(), 0.0)
        return f"at {datetime.now(timezone.utc) + timedelta(seconds=left):%H:%M:%S} UTC"

    def _trust_again(self) -> None:
        with self._lock:
            self._strikes = 0
            if len(self._hung) < MOST_HUNG:
                self._rests_until = 0.0


def clock_time() -> str:
    return f"{datetime.now(timezone.utc):%H:%M:%S} UTC"
