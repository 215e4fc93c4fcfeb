# SPDX-License-Identifier: Apache-2.0
"""A compaction whose files are written first, and whose commit waits until nobody writes, under the table's lock."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lakehand.jobs.hudi import checks, rollbacks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.spark import jvm

QUIET_TIMEOUT = 120.0  # seconds to wait for such a moment
POLL = 0.05  # seconds: a writer that never pauses leaves some tenths of a second between two writes
AT_ONCE = {  # the lock is tried as often, for ten minutes
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.num_retries": "12000",
}


class NotPending(Exception):
    """Someone else has completed the plan, or rolled it back."""


@dataclass(frozen=True, kw_only=True)
class HeldCompaction:
    """Until it is committed, the plan is inflight, and Hudi's heartbeat keeps other runners away."""

    job: Job
    location: str
    instant: str
    client: Any
    written: Any

    def commit_locked(self) -> None:
        """The caller holds the table's lock, which writers wait for."""
        self.job.check()
        checks.check_under_lock(self.job)
        with timelines.unlocked_client(self.job.session, self.location) as client:
            self._commit(client)

    def commit(self) -> None:
        """Hudi takes the lock."""
        self.job.check()
        checks.check_again(self.job)
        self._commit(self.client)

    def _commit(self, client: Any) -> None:
        # Hudi would commit a second time: it does not ask.
        if self.instant not in timelines.pending(self.job.session, self.location, "compaction"):
            raise NotPending(f"compaction {self.instant} is not present as pending or already completed")
        client.commitCompaction(
            self.instant, self.written, jvm(self.job.session).org.apache.hudi.common.util.Option.empty()
        )


@contextmanager
def held_compaction(job: Job, location: str, instant: str) -> Iterator[HeldCompaction]:
    with timelines.write_client(job.session, location) as client:
        written = client.compact(instant, False)
        statuses = written.getWriteStatuses()
        try:
            # Hudi has only told Spark what to keep: without this the files would be written when it commits.
            statuses.count()
            yield HeldCompaction(job=job, location=location, instant=instant, client=client, written=written)
        finally:
            statuses.unpersist()
    # It beats until its client is closed, and would stay: another client has made the commit.
    timelines.forget_heartbeat(job.session, location, instant)


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
