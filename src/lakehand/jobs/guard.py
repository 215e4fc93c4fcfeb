# SPDX-License-Identifier: Apache-2.0
"""Keeps the promise that no job outlives its lease: a thread that asks nobody, and can end the whole driver at once."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NoReturn

from lakehand.jobs.attempt import Attempt

LOOK = 0.2  # seconds


PARENT = os.getppid()


def die(reason: str, last_words: Path) -> NoReturn:
    """End the JVM, our parent, now; then say why, and end what is left of the process group that the engine made.

    Not on our standard output: that is a pipe to the JVM.
    """
    with suppress(OSError):
        if os.getppid() == PARENT:
            os.kill(PARENT, signal.SIGKILL)
    with suppress(OSError):
        last_words.write_text(f"{reason}\n")
    with suppress(OSError):
        if os.getpgrp() == PARENT:
            os.killpg(PARENT, signal.SIGKILL)
    os._exit(1)


class Guard:
    """Watches leases and the JVM. It calls neither Spark nor the disk, so that neither can hold it up."""

    def __init__(
        self,
        attempts: Callable[[], Sequence[Attempt]],
        *,
        grace: float,
        on_expiry: Callable[[], None],
        die: Callable[[str], None],
    ) -> None:
        self._attempts = attempts
        self._grace = grace
        self._on_expiry = on_expiry
        self._die = die
        self._end = Event()

    def start(self) -> None:
        Thread(target=self._watch, name="guard", daemon=True).start()

    def stop(self) -> None:
        self._end.set()

    def _watch(self) -> None:
        while not self._end.wait(LOOK):
            self.look()

    def look(self) -> None:
        if os.getppid() != PARENT:
            self._die("its JVM is gone")
        late = [attempt for attempt in self._attempts() if attempt.overdue() >= 0]
        for attempt in late:
            if attempt.overdue() > self._grace:
                self._die(f"{attempt.handle} goes on {attempt.overdue():.1f} s after its lease ended")
        if late:
            self._on_expiry()
