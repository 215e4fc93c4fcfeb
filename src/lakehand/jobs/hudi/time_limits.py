# SPDX-License-Identifier: Apache-2.0
"""A limit on the time that Spark works for a thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import uuid4

from lakehand.jobs.job import Job

CANCEL_EVERY = 0.2  # seconds


class TimeLimit:
    """Cancels the Spark jobs of the thread when its time is over, and those that follow."""

    def __init__(self, job: Job, seconds: float) -> None:
        self.context = job.session.sparkContext
        self.seconds = seconds
        self.is_over = False
        self._tag = f"lakehand-limit-{uuid4().hex}"
        self._left = Event()

    @contextmanager
    def kept(self) -> Iterator[None]:
        canceling = Thread(target=self._cancel, name="time limit", daemon=True)
        self.context.addJobTag(self._tag)
        canceling.start()
        try:
            yield
        finally:
            self._left.set()
            canceling.join()
            self.context.removeJobTag(self._tag)

    def _cancel(self) -> None:
        pause = self.seconds
        while not self._left.wait(pause):
            self.is_over, pause = True, CANCEL_EVERY
            self.context.cancelJobsWithTag(self._tag)
