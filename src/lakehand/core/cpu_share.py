# SPDX-License-Identifier: Apache-2.0
"""Lets the intake go first: while it is busy with notifications, evaluations together get a share of one processor.

Python runs one thread at a time. Without this, threads that evaluate tables make writers wait for their answers.
"""

import threading
import time
from dataclasses import dataclass, field

SHARE = 0.15  # of one processor, for evaluations while the intake is busy
BUSY = 0.25  # of the time: an intake that records for longer is busy
LEAST, MOST = 0.05, 0.25  # seconds of recording beyond that: so many make it busy, and more are not counted
LONGEST_REST = 1.0  # seconds: evaluations always go on


@dataclass(slots=True)
class CpuShare:
    """Thread-safe. Used processor time is paid back by resting: a leaky bucket that all threads share."""

    _recorded: float = 0.0  # seconds of recording beyond its share; another leaky bucket
    _noted: float = float("-inf")  # when that was last counted, on the monotonic clock
    _paid_at: float = 0.0  # when all used time is paid back
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_recording(self, seconds: float, now: float) -> None:
        """The intake was recording notifications for so long, until now."""
        with self._lock:
            self._recorded, self._noted = min(self._left(now) + seconds, MOST), now

    def is_busy(self, now: float) -> bool:
        """True while many notifications come in, and for at most a second afterwards."""
        return self._left(now) >= LEAST

    def _left(self, now: float) -> float:
        return max(self._recorded - BUSY * (now - self._noted), 0.0)

    def rest(self, used: float) -> None:
        """Called by a thread between two tasks, with the processor seconds of the last one."""
        pause = self.pause_after(used, time.monotonic())
        if pause > 0:
            time.sleep(pause)

    def pause_after(self, used: float, now: float) -> float:
        """The seconds to rest; none while the intake has time."""
        with self._lock:
            if not self.is_busy(now):
                return 0.0
            self._paid_at = min(max(self._paid_at, now) + used / SHARE, now + LONGEST_REST)
            return self._paid_at - now
