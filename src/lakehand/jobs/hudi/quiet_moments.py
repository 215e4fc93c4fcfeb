# SPDX-License-Identifier: Apache-2.0
"""Moments at which nobody writes to a table, held by its lock."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakehand.jobs.hudi import rollbacks, timelines
from lakehand.jobs.job import Job

QUIET_TIMEOUT = 120.0  # seconds to wait for such a moment
POLL = 0.05  # seconds: a writer that never pauses leaves some tenths of a second between two writes
AT_ONCE = {  # the lock is tried as often, for ten minutes
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.num_retries": "12000",
}


@contextmanager
def without_writes(job: Job, location: str) -> Iterator[None]:
    """Hold the table's lock at a moment when no write is under way: none can begin or commit until it is released."""
    deadline = time.monotonic() + QUIET_TIMEOUT
    with timelines.table_lock(job.session, location, AT_ONCE) as lock:
        while True:
            rollbacks.wait_for_writes(job, location, timeout=deadline - time.monotonic(), poll=POLL)
            with timelines.held(job.session, lock):
                if not rollbacks.writes_under_way(job, location):
                    yield
                    return
