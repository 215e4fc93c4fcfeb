# SPDX-License-Identifier: Apache-2.0
"""Starts drivers: in the background, one at a time, with a growing delay after failures."""

import time
from collections.abc import Callable
from threading import Lock, Thread

from lakehand.engines.spark.command import Command
from lakehand.engines.spark.process import DriverProcess
from lakehand.engines.spark.spool import Document

LONGEST_DELAY = 60.0
STEADY = 60.0  # seconds of uptime that reset the failure count
MOST_FAILURES = 3


class Launcher:
    def __init__(
        self, process: DriverProcess, prepare: Callable[[], Command], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._process = process
        self._prepare = prepare
        self._clock = clock
        self._lock = Lock()
        self._thread: Thread | None = None
        self._expected_since: float | None = None  # since when a driver should be alive
        self._not_before = 0.0
        self.failures = 0
        self.restarts = 0
        self.error = ""

    @property
    def is_starting(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_backing_off(self) -> bool:
        """Several failures in a row, and the next start is not due: accept no more work."""
        return self.failures >= MOST_FAILURES and self._clock() < self._not_before

    def request_start(self) -> None:
        """Start a driver in the background: finding Java and the jars can take long."""
        with self._lock:
            if self.is_starting or self._clock() < self._not_before:
                return
            self._thread = Thread(target=self._start, name="driver-start", daemon=True)
            self._thread.start()

    def wait(self, timeout: float) -> None:
        """Wait for a start in progress."""
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
        """Count failures and successes; call it about every second."""
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
                self._failed(self._process.exit_reason())

    def _failed(self, error: str) -> None:
        with self._lock:
            self.failures += 1
            self.error = error
            self._not_before = self._clock() + min(2.0 ** (self.failures - 1), LONGEST_DELAY)


class HeartbeatTimer:
    """How long the driver's heartbeat has not changed, by the service's own clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: tuple[object, object] | None = None
        self._since = clock()

    def silence(self, is_alive: bool, state: Document) -> float:
        """Seconds since the last new heartbeat; 0 while no driver lives."""
        heartbeat = (state.get("boot"), state.get("beat")) if is_alive else None
        if heartbeat is None or heartbeat != self._seen:
            self._seen, self._since = heartbeat, self._clock()
        return self._clock() - self._since
