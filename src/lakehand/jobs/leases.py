# SPDX-License-Identifier: Apache-2.0
"""How long each job may run: a lease counts from a heartbeat of this driver, or from the clock of its machine."""

import os
import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Protocol

HEARTBEATS_KEPT = 900
BOOT_ID, TIME_NAMESPACE = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/time"


def clock() -> float:
    """Seconds on a clock that runs while the machine sleeps, where there is one: leases end meanwhile."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Moments(Protocol):
    """Knows when the moment was that a token names; None for a token of somebody else's."""

    def moment(self, token: str | None) -> float | None: ...


class MachineClock:
    """Tokens of the clock that all processes of this machine share, for a program that is younger than its lease.

    The engine has the other side (``engines/spark_submit/application.py``; a test compares the two).
    """

    def __init__(self) -> None:
        self._machine = machine()

    def moment(self, token: str | None) -> float | None:
        name, _, seconds = (token or "").rpartition(":")
        if name != self._machine or not seconds.replace(".", "", 1).isdecimal():
            return None
        moment = float(seconds)
        return moment if moment <= clock() else None


def machine() -> str:
    """Names this boot of this machine, and the clock that a container may have of its own."""
    boot = Path(BOOT_ID).read_text().strip() if Path(BOOT_ID).exists() else os.uname().nodename
    namespace = os.readlink(TIME_NAMESPACE) if os.path.lexists(TIME_NAMESPACE) else ""  # noqa: PTH115
    return f"{boot}-{''.join(filter(str.isdecimal, namespace))}"


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

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self._ends: dict[str, float] = {}
        self._lock = Lock()

    def grant(self, handle: str, token: str | None, time_to_live: float) -> None:
        moment = self._moments.moment(token)
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
