# SPDX-License-Identifier: Apache-2.0
"""How long each job may run, on this driver's own clock: a lease counts from a heartbeat that this driver published."""

import time
from collections import OrderedDict
from threading import Lock

HEARTBEATS_KEPT = 900


def clock() -> float:
    """Seconds on a clock that runs while the machine sleeps, where there is one: leases end meanwhile."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Heartbeats:
    """When each recent heartbeat was published. A token names a heartbeat; an unknown or old one grants nothing."""

    def __init__(self, boot: str, keep: int = HEARTBEATS_KEPT) -> None:
        self.boot = boot
        self.last = 0
        self._keep = keep
        self._moments: OrderedDict[int, float] = OrderedDict()

    def tick(self, now: float) -> int:
        """Count a heartbeat. Call it before publishing: a lease that counts from it can only end earlier."""
        self.last += 1
        self._moments[self.last] = now
        while len(self._moments) > self._keep:
            self._moments.popitem(last=False)
        return self.last

    @property
    def token(self) -> str:
        return f"{self.boot}:{self.last}"

    def moment(self, token: str | None) -> float | None:
        boot, _, number = (token or "").partition(":")
        return self._moments.get(int(number)) if boot == self.boot and number.isdecimal() else None


class Leases:
    """When each job's lease ends. A renewal never shortens a lease."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats
        self._ends: dict[str, float] = {}
        self._lock = Lock()

    def grant(self, handle: str, token: str | None, time_to_live: float) -> None:
        moment = self._heartbeats.moment(token)
        if moment is None:
            return
        with self._lock:
            self._ends[handle] = max(moment + time_to_live, self._ends.get(handle, 0.0))

    def drop(self, handle: str) -> None:
        with self._lock:
            self._ends.pop(handle, None)

    def overdue(self, handle: str, now: float) -> float:
        """Seconds since the lease ended: negative while it lasts, infinite if there was none."""
        with self._lock:
            return now - self._ends.get(handle, float("-inf"))
