# SPDX-License-Identifier: Apache-2.0
"""Enforces that no job outlives its lease: a thread that waits for nobody and can kill the whole driver.

The driver's processes: the JVM is our parent and leads a session that the engine made for this driver alone.
"""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NoReturn

from lakehand.jobs.attempt import JobAttempt

CHECK_EVERY = 0.2  # seconds


class ProcessGroup:
    def __init__(self, jvm: int, exit_reason: Path) -> None:
        if jvm <= 1:  # the parent is dead already; and to a signal, group 1 means every process there is
            raise ValueError("the driver has no JVM")
        self.jvm = jvm
        self._exit_reason = exit_reason

    @property
    def is_orphaned(self) -> bool:
        return os.getppid() != self.jvm

    def end(self, reason: str) -> NoReturn:
        """Kill the JVM, store the reason, and kill what is left of the session.

        The reason does not go to standard output, which is a pipe to the JVM.
        """
        with suppress(OSError):
            if not self.is_orphaned:
                os.kill(self.jvm, signal.SIGKILL)
        with suppress(OSError):
            draft = self._exit_reason.with_name(f".{self._exit_reason.name}.{os.getpid()}")
            draft.write_text(f"{reason}\n")
            draft.replace(self._exit_reason)  # whole at once: that it is there says that the driver is gone
        with suppress(OSError):
            if os.getpgrp() == self.jvm == os.getsid(0):
                os.killpg(self.jvm, signal.SIGKILL)
        os._exit(1)


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
