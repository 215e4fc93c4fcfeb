# SPDX-License-Identifier: Apache-2.0
"""How long each job may go on, in this driver's own time: a lease is counted from a mark that this driver published."""

import time
from collections import OrderedDict
from threading import Lock

BEATS_KEPT = 900


def clock() -> float:
    """Seconds that go on while the machine sleeps, where the system can tell: a lease ends for a sleeper as well."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Beats:
    """When each recent mark was shown. Others give marks back; a foreign or forgotten one means nothing."""

    def __init__(self, boot: str, keep: int = BEATS_KEPT) -> None:
        self.boot = boot
        self.last = 0
        self._keep = keep
        self._moments: OrderedDict[int, float] = OrderedDict()

    def tick(self, now: float) -> int:
        """A new beat. Call it before the beat is shown to anyone: whoever reads it later only gets less."""
        self.last += 1
        self._moments[self.last] = now
        while len(self._moments) > self._keep:
            self._moments.popitem(last=False)
        return self.last

    def moment(self, mark: str | None) -> float | None:
        boot, _, beat = (mark or "").partition(":")
        return self._moments.get(int(beat)) if boot == self.boot and beat.isdecimal() else None


class Leases:
    """The end of each job's time. Renewals only ever lengthen it."""

    def __init__(self, beats: Beats) -> None:
        self._beats = beats
        self._ends: dict[str, float] = {}
        self._lock = Lock()

    def grant(self, handle: str, mark: str | None, time_to_live: float) -> None:
        moment = self._beats.moment(mark)
        if moment is None:
            return
        with self._lock:
            self._ends[handle] = max(moment + time_to_live, self._ends.get(handle, 0.0))

    def drop(self, handle: str) -> None:
        with self._lock:
            self._ends.pop(handle, None)

    def overdue(self, handle: str, now: float) -> float:
        """Seconds since the lease ended; negative while it lasts, endless when there was none."""
        with self._lock:
            return now - self._ends.get(handle, float("-inf"))
