# SPDX-License-Identifier: Apache-2.0
"""Enforces that no job outlives its lease: a thread that waits for nobody and can kill the whole driver."""

from collections.abc import Callable, Sequence
from threading import Event, Thread

from lakehand.jobs.attempt import JobAttempt
from lakehand.jobs.process_group import ProcessGroup

CHECK_EVERY = 0.2  # seconds


class LeaseWatchdog:
    """Watches leases and the JVM. It calls neither Spark nor the disk, so neither can block it."""

    def __init__(
        self,
        process_group: ProcessGroup,
        attempts: Callable[[], Sequence[JobAttempt]],
        grace: float,
        on_expiry: Callable[[], None],
    ) -> None:
        self._process_group = process_group
        self._attempts = attempts
        self._grace = grace
        self._on_expiry = on_expiry
        self._end = Event()

    def start(self) -> None:
        Thread(target=self._watch, name="lease-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._end.set()

    def _watch(self) -> None:
        while not self._end.wait(CHECK_EVERY):
            self.check()

    def check(self) -> None:
        if self._process_group.is_orphaned:
            self._process_group.end("its JVM is gone")
        late = [attempt for attempt in self._attempts() if attempt.overdue() >= 0]
        for attempt in late:
            if attempt.overdue() > self._grace:
                self._process_group.end(f"{attempt.handle} still runs {attempt.overdue():.1f} s after its lease ended")
        if late:
            self._on_expiry()
