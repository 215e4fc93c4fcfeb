# SPDX-License-Identifier: Apache-2.0
"""Circuit breakers: one per plugin, and one per table at which its calls hang. They also count a plugin's errors."""

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from lakehand.domain.errors import PluginStuck
from lakehand.domain.masks import Masks
from lakehand.domain.processes import back_off

SLOW_CALL = 5.0  # seconds after which a call is reported as slow
RECENT = 600.0  # seconds for which a slow call is reported
FAILURES_IN_A_ROW = 3  # of one method make a failing plugin
MOST_HUNG = 16  # abandoned calls about no table that still hang
MOST_TABLES = 16  # tables at which calls hang at once: twice the threads that evaluate tables of one format
MOST_ABANDONED = 32  # threads that a plugin may keep in all; at this bound there is no trial call either
TRIAL = 90.0  # seconds that other calls wait for the trial call of a half-open breaker
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)


@dataclass(slots=True, kw_only=True)
class TableBreaker:
    """Sets one table aside while a call about it hangs, and for a pause that doubles with each hang."""

    since: str
    method: str = ""
    why: str = ""
    times: int = 0
    open_until: float = 0.0  # on the monotonic clock
    hanging: set[object] = field(default_factory=set)  # abandoned calls that have not returned

    def open(self, call: object, method: str, why: str) -> None:
        self.method, self.why, self.times = method, why, self.times + 1
        self.hanging.add(call)
        self.open_until = time.monotonic() + pause(self.times)

    def refusal(self, plugin: str, method: str, table: str) -> PluginStuck | None:
        """Why the plugin is not called for this table now; None when it may be."""
        left = self.open_until - time.monotonic()
        if left <= 0 and not self.hanging:
            return None
        left = max(left, FIRST_PAUSE.total_seconds()) if self.hanging else left
        when = f"it is tried again at {utc(left)}" + (" if that call has ended by then" if self.hanging else "")
        why = f"{plugin} is not asked to {method} {table}: set aside since {self.since}, {self.why}; {when}"
        return PluginStuck(why, again=timedelta(seconds=left))


@dataclass(kw_only=True)
class CircuitBreaker:
    """Closed: calls pass. Open: they are refused for a pause that doubles. Half-open: one trial call passes.

    A call that returns in time closes it, whatever it says; a trial that hangs opens it again. A hanging call about a
    table opens the breaker of that table only, until calls hang at too many tables. Thread-safe.
    """

    kind: str
    name: str
    tolerance: int = 1  # hanging calls about no table, with no return between them, that open it
    most_tables: int = MOST_TABLES
    masks: Masks = field(default_factory=Masks)  # for all texts of the plugin
    errors: int = 0
    hangs: int = 0
    last_error: str = ""
    last_error_at: datetime | None = None
    _failures: dict[str, int] = field(default_factory=dict)  # method → failures since it last succeeded
    _strikes: int = 0  # hanging calls about no table since a call last returned in time
    _hanging: dict[object, str] = field(default_factory=dict)  # abandoned calls that have not returned, described
    _last_hang: str = ""
    _slow: tuple[str, float] = ("", 0.0)  # the last slow call, and when, on the monotonic clock
    _open_until: float = 0.0  # 0: closed
    _tables: dict[str, TableBreaker] = field(default_factory=dict)  # by location
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def allow(self, method: str, table: str = "") -> None:
        """Raise PluginStuck if the plugin, or the table at this location, must not be called now."""
        if table and self._tables:
            self._allow_table(method, table)
        if not self._open_until:
            return
        with self._lock:
            now = time.monotonic()
            left = self._open_until - now
            if left <= 0 and len(self._hanging) < MOST_ABANDONED:
                self._open_until = now + TRIAL
                return
        again = timedelta(seconds=left) if left > 0 else FIRST_PAUSE
        raise PluginStuck(f"{self.name} is not asked to {method}: {self._last_hang}", again=again)

    def _allow_table(self, method: str, table: str) -> None:
        with self._lock:
            breaker = self._tables.get(table)
            refusal = breaker.refusal(self.name, method, table) if breaker else None
        if refusal is not None:
            raise refusal

    def returned(self, method: str, seconds: float, table: str = "") -> None:
        """A call returned or raised in time."""
        if seconds > SLOW_CALL:
            self._slow = (f"{method} took {seconds:.0f} s at {utc()}", time.monotonic())
        if not (self._tables or self._strikes or self._open_until):
            return
        with self._lock:
            known = self._tables.get(table)
            if known is not None and known.method == method and not known.hanging:
                del self._tables[table]
            self._strikes = 0
            if len(self._hanging) - self._hanging_tables < MOST_HUNG and len(self._hanging) < MOST_ABANDONED:
                self._open_until = 0.0

    def succeeded(self, method: str) -> None:
        """Counted per method: an engine whose heartbeat works and whose status fails is failing."""
        if method in self._failures:
            self._failures.pop(method, None)

    def failed(self, method: str, error: BaseException) -> None:
        with self._lock:
            self.errors += 1
            self._failures[method] = self._failures.get(method, 0) + 1
            self.last_error = self.masks.hide(f"{method}: {type(error).__name__}: {error}")[:500]
            self.last_error_at = datetime.now(timezone.utc)

    def abandoned(self, call: object, method: str, seconds: float, table: str = "") -> None:
        """A call missed its deadline and its thread was left alone."""
        with self._lock:
            self.hangs += 1
            self._last_hang = f"{method} had not come back after {seconds:.0f} s at {utc()}"
            self._hanging[call] = f"{table}: {self._last_hang}" if table else self._last_hang
            if table:
                self._tables.setdefault(table, TableBreaker(since=utc())).open(call, method, self._last_hang)
                self._open_from(self._hanging_tables, self.most_tables)
            else:
                self._strikes += 1
                is_full = len(self._hanging) >= MOST_HUNG
                self._open_from(self._strikes, min(self._strikes, self.tolerance) if is_full else self.tolerance)

    def _open_from(self, count: int, limit: int) -> None:
        if count >= limit:
            self._open_until = time.monotonic() + pause(count - limit + 1)

    def returned_late(self, call: object, table: str = "") -> None:
        """An abandoned call has ended. Its result is thrown away, but a trial call is worth it now."""
        with self._lock:
            self._hanging.pop(call, None)
            if table in self._tables:
                self._tables[table].hanging.discard(call)
            if self._open_until:
                self._open_until = time.monotonic()

    @property
    def _hanging_tables(self) -> int:
        return sum(bool(breaker.hanging) for breaker in self._tables.values())

    def state(self) -> tuple[str, str]:
        """One of on, slow, failing and stuck, and the reason."""
        if self._open_until:
            left = max(self._open_until - time.monotonic(), 0.0)
            return "stuck", f"{self._last_hang}; asked again at {utc(left)}"
        failures = max(self._failures.copy().values(), default=0)
        if failures >= FAILURES_IN_A_ROW:
            return "failing", f"the last {failures} calls failed; {self.last_error}"
        if self._hanging:
            return "slow", "; ".join(list(self._hanging.values())[:3])
        if self._tables:
            return "slow", f"{len(self._tables)} tables are set aside, the last because {self._last_hang}"
        if self._slow[0] and time.monotonic() - self._slow[1] < RECENT:
            return "slow", self._slow[0]
        return "on", ""


def pause(times: int) -> float:
    return back_off(times, first=FIRST_PAUSE, longest=LONGEST_PAUSE).total_seconds()


def utc(seconds: float = 0.0) -> str:
    return f"{datetime.now(timezone.utc) + timedelta(seconds=seconds):%H:%M:%S} UTC"
