# SPDX-License-Identifier: Apache-2.0
"""A loop: a thread that calls ``run_once`` again and again, sooner when woken, later after a failure."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lakehand.core.ports import Metrics

log = logging.getLogger(__name__)
LONGEST_PAUSE = 30.0
# A loop that is rung all the time works for a fifth of it, and not more often than this.
REST = 4.0  # times as long as a turn took
LEAST_REST = 0.05


@dataclass(kw_only=True)
class Loop:
    """Runs one step over and over. A step returns True when there may be more to do at once."""

    name: str
    run_once: Callable[[], bool]
    pause: Callable[[], float]  # seconds to wait when there is nothing more
    metrics: Metrics
    _bell: threading.Event = field(default_factory=threading.Event)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failures: int = 0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"loop-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._bell.set()

    def stop(self, timeout: float = 10.0) -> None:
        self._ending.set()
        self._bell.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._bell.clear()
            began = time.monotonic()
            has_more = self.step()
            if not has_more:
                self._rest(time.monotonic() - began)

    def _rest(self, took: float) -> None:
        """LeaseGrant the bell, but not before a share of the time is left to everyone else."""
        pause = self.pause() if self._failures == 0 else self._pause_after_failure()
        began = time.monotonic()
        self._bell.wait(pause)
        left = min(max(REST * took, LEAST_REST), pause) - (time.monotonic() - began)
        if left > 0:
            self._ending.wait(left)

    def step(self) -> bool:
        """One turn, counted and guarded: an error ends the turn, never the loop."""
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
        return float(min(2.0 ** min(self._failures, 10) * 0.25, LONGEST_PAUSE))
