# SPDX-License-Identifier: Apache-2.0
"""Decides when a driver is started: in the background, one at a time, and after a death later and later."""

import time
from collections.abc import Callable
from threading import Lock, Thread

from lakehand.engines.spark.command import Command
from lakehand.engines.spark.process import DriverProcess
from lakehand.engines.spark.spool import Document

LONGEST_DELAY = 60.0
STEADY = 60.0  # seconds of life after which earlier deaths no longer count
HOPELESS = 3


class Launcher:
    def __init__(
        self, process: DriverProcess, prepare: Callable[[], Command], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._process = process
        self._prepare = prepare
        self._clock = clock
        self._lock = Lock()
        self._thread: Thread | None = None
        self._expected_since: float | None = None  # since when a driver should live
        self._not_before = 0.0
        self.failures = 0
        self.restarts = 0
        self.error = ""

    @property
    def is_starting(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_hopeless(self) -> bool:
        """Several deaths in a row, and the next try is not due: giving it more work now makes no sense."""
        return self.failures >= HOPELESS and self._clock() < self._not_before

    def want(self) -> None:
        """A driver is needed. Returns at once; finding Java and the jars may take its time."""
        with self._lock:
            if self.is_starting or self._clock() < self._not_before:
                return
            self._thread = Thread(target=self._start, name="driver-start", daemon=True)
            self._thread.start()

    def settle(self, timeout: float) -> None:
        """Wait for a start that is under way."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _start(self) -> None:
        try:
            if self._process.start(self._prepare()):
                self.restarts += self.failures > 0
            with self._lock:
                self._expected_since = self._clock()
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")

    def observe(self, is_alive: bool, state: Document) -> None:
        """Learn from what the driver does; call it every second or so."""
        if self.is_starting:
            return
        if is_alive:
            self._expected_since = self._expected_since or self._clock()
            if state and self._clock() - self._expected_since > STEADY:
                self.failures, self.error = 0, ""
            return
        if self._expected_since is not None:
            self._expected_since = None
            if state.get("state") != "stopped":
                self._failed(self._process.last_words())

    def _failed(self, error: str) -> None:
        with self._lock:
            self.failures += 1
            self.error = error
            self._not_before = self._clock() + min(2.0 ** (self.failures - 1), LONGEST_DELAY)
