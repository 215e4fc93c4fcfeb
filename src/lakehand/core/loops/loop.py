# SPDX-License-Identifier: Apache-2.0
"""A loop: a thread that calls ``run_once`` again and again, sooner when woken, later after a failure."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from lakehand.core.ports import Metrics
from lakehand.domain.processes import back_off

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=0.5), timedelta(seconds=30)  # after failures
# A loop that is woken all the time works a fifth of the time.
REST = 4.0  # times as long as a step took
LEAST_REST = 0.05  # seconds


@dataclass(kw_only=True)
class Loop:
    """Runs one step over and over. A step returns True when there may be more to do at once."""

    name: str
    run_once: Callable[[], bool]
    pause: Callable[[], float]  # seconds to wait when there is nothing more
    metrics: Metrics
    rest: Callable[[float], None] = lambda used: None  # after a full step, with the processor seconds that it took
    _wake_up: threading.Event = field(default_factory=threading.Event)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failures: int = 0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"loop-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wake_up.set()

    def stop(self, timeout: float = 10.0) -> None:
        self._ending.set()
        self._wake_up.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake_up.clear()
            began, used = time.monotonic(), time.thread_time()
            if self.step():
                self.rest(time.thread_time() - used)
            else:
                self._wait(time.monotonic() - began)

    def _wait(self, took: float) -> None:
        """Wait for a wake-up, but leave a share of the time to the other threads."""
        pause = self.pause() if self._failures == 0 else self._pause_after_failure()
        began = time.monotonic()
        self._wake_up.wait(pause)
        left = min(max(REST * took, LEAST_REST), pause) - (time.monotonic() - began)
        if left > 0:
            self._ending.wait(left)

    def step(self) -> bool:
        """Run once, measured: an error ends the step, never the loop."""
        began = time.monotonic()
        try:
            has_more = self.run_once()
            self._failures = 0
        except Exception:
            self._failures += 1
            log.exception("the loop failed and goes on", extra={"loop": self.name, "failures": self._failures})
            has_more = False
        self.metrics.loop(self.name, time.monotonic() - began, failed=self._failures > 0)
        return has_more

    def _pause_after_failure(self) -> float:
        return back_off(self._failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE).total_seconds()
