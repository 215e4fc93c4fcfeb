# SPDX-License-Identifier: Apache-2.0
"""How a plugin behaves in this process: its errors, the calls that do not come back, and how long it is left alone."""

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from lakehand.core.set_aside import FIRST_REST, LONGEST_REST, TablesAside, utc
from lakehand.domain.errors import PluginStuck

SLOW = 5.0  # seconds that one call may take before people are told
RECENT = 600.0  # seconds for which a slow call is spoken of
IN_A_ROW = 3  # calls that failed one after the other make a failing plugin
MOST_HUNG = 16  # threads that one plugin may keep
MOST_TABLES = 16  # different tables at which it may hang at once: twice the threads that look at one format
TRIAL = 90.0  # seconds that all others wait while one call tries again


@dataclass(kw_only=True)
class PluginHealth:
    """Written by the threads that call the plugin, read by whoever lists it."""

    kind: str
    name: str
    tolerance: int = 1  # so many hanging calls, with no good one between them, and it is left alone
    most_tables: int = MOST_TABLES  # calls about a table set that table aside; at so many at once it is left alone
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
    _aside: TablesAside = field(default_factory=TablesAside)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, method: str, table: str = "") -> None:
        """Raises PluginStuck while the table is set aside or the plugin is left alone; after that one call may try."""
        if table and self._aside:
            self._admit_table(method, table)
        if not self._rests_until:
            return
        with self._lock:
            now = time.monotonic()
            left = self._rests_until - now
            if left <= 0:
                self._rests_until = now + TRIAL
                return
        raise PluginStuck(f"{self.name} is not asked to {method}: {self._last_hang}", again=timedelta(seconds=left))

    def _admit_table(self, method: str, table: str) -> None:
        with self._lock:
            refusal = self._aside.refusal(self.name, method, table)
        if refusal is not None:
            raise refusal

    def answered(self, method: str, seconds: float, table: str = "") -> None:
        """A call came back in time, whatever it said."""
        if seconds > SLOW:
            self._slow = (f"{method} took {seconds:.0f} s at {clock_time()}", time.monotonic())
        if table and self._aside:
            with self._lock:
                self._aside.answered(method, table)
        if self._strikes or self._rests_until:
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

    def has_hung(self, call: object, method: str, seconds: float, table: str = "") -> None:
        """Nobody waits for this call any more. One about a table sets that table aside."""
        with self._lock:
            self.hangs += 1
            self._last_hang = f"{method} had not come back after {seconds:.0f} s at {clock_time()}"
            self._hung[call] = f"{table}: {self._last_hang}" if table else self._last_hang
            if table:
                self._aside.hung(call, method, table, self._last_hang)
                self._rest_beyond(self._aside.hanging, self.most_tables)
            else:
                self._strikes += 1
                is_full = len(self._hung) >= MOST_HUNG
                self._rest_beyond(self._strikes, min(self._strikes, self.tolerance) if is_full else self.tolerance)

    def _rest_beyond(self, count: int, limit: int) -> None:
        if count >= limit:
            doubled = 2 ** min(count - limit, 10)
            self._rests_until = time.monotonic() + min(FIRST_REST * doubled, LONGEST_REST)

    def came_back(self, call: object, *, is_stopped: bool, table: str = "") -> None:
        """A call that was given up has ended: by itself, so that it is worth trying, or because it was stopped."""
        with self._lock:
            self._hung.pop(call, None)
            self._aside.came_back(call, table)
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
        if self._aside:
            return "slow", f"{len(self._aside)} tables are set aside, the last because {self._last_hang}"
        if self._slow[0] and time.monotonic() - self._slow[1] < RECENT:
            return "slow", self._slow[0]
        return "on", ""

    def _next_trial(self) -> str:
        left = max(self._rests_until - time.monotonic(), 0.0)
        return f"at {datetime.now(timezone.utc) + timedelta(seconds=left):%H:%M:%S} UTC"

    def _trust_again(self) -> None:
        with self._lock:
            self._strikes = 0
            if len(self._hung) - self._aside.hanging < MOST_HUNG:
                self._rests_until = 0.0


def clock_time() -> str:
    return utc()
