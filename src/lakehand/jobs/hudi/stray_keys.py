# SPDX-License-Identifier: Apache-2.0
"""Stray keys: live keys that no base file has, which most of Hudi's indexes therefore do not find.

A key that was deleted before a compaction was planned, and written again before the plan was executed, is in a log file
alone after it. Its next write becomes a second row, and its next delete is lost. A second compaction before that write
takes the key into a base file. Its files are written first, and its commit waits until nobody writes.
"""

import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, col

from lakehand.jobs.hudi import calls, checks, rollbacks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.spark import ListedFile, jvm, list_folder

REPORT = "report"
BEGUN_TIMEOUT = 600.0  # seconds to wait for the writes that began before the compaction was completed

Rows = list[dict[str, Any]]
Execute = Callable[[str, calls.Arguments], Rows]
CANCEL_EVERY = 0.2  # seconds
MOST_PARTITIONS = 50  # that are read one by one; of more, the whole table is read
PARTITION, KEY, FILE = "_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"
BASE_FILE = r"\.(parquet|orc|hfile|lance)$"
_DELTA_COMMIT = re.compile(r"(\d{14}|\d{17})(?:_(\d+))?\.deltacommit")
_LOG_FILE = re.compile(r".*_(\d{14}|\d{17})(?:\.[a-z]+)?\.log\..*")
QUIET_TIMEOUT = 120.0  # seconds to wait for such a moment
POLL = 0.05  # seconds: a writer that never pauses leaves some tenths of a second between two writes
# Another client makes the commit, and writes the metadata table with it. Hudi takes that client for the only one there,
# which rolls back what others have begun: such a commit is made at moments without writes alone.
COMMITTED_LATER = {"hoodie.metadata.streaming.write.enabled": "false"}
AT_ONCE = {  # the lock is tried as often, for ten minutes
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.client.num_retries": "12000",
}


@dataclass
class StrayKeyGuard:
    """Executes compaction plans of a table whose writers' index looks only into base files.

    Only plans with deletes in their logs can leave stray keys; all others are executed as they are. The files of such
    a plan are written beside the writers. Its commit, the search and a second compaction follow under the lock, at a
    moment without writes, so that no write ever begins between them.
    """

    job: Job
    location: str
    plan: Callable[[calls.Arguments], None]
    compact: Execute
    options: calls.Arguments
    found: int = 0
    left: int = 0
    why_left: str = ""
    instants: list[str] = field(default_factory=list)  # of second compactions

    def execute(self, instant: str) -> Rows:
        how = self.job.parameters.get("stray_keys")
        partitions = partitions_with_deletes(self.job, self.location, instant) if how else []
        if not partitions:
            return self.compact(instant, self.options)
        is_pending = instant in self._pending()
        if is_pending and how != REPORT:
            return self._execute_held(instant, partitions)
        rows = self.compact(instant, self.options) if is_pending else self._after_a_dead_driver(instant)
        self._look_beside_writers(partitions, may_heal=how != REPORT)
        return rows

    def _after_a_dead_driver(self, instant: str) -> Rows:
        """It may have committed the plan, and not looked for stray keys."""
        timelines.forget_heartbeat(self.job.session, self.location, instant)
        return []

    def report(self) -> dict[str, Any]:
        counted = {"found": self.found, "left": self.left, "why": self.why_left, "healed_by": self.instants}
        return {"stray_keys": counted} if self.found or self.why_left else {}

    def _execute_held(self, instant: str, partitions: Sequence[str]) -> Rows:
        """The commit waits for a moment without writes. If there is none, it is made beside them, or anew."""
        is_sure = is_given_up = False
        with held_compaction(self.job, self.location, instant) as held:
            self.job.phase(f"waiting for a moment without writes, to commit {instant}")
            try:
                with without_writes(self.job, self.location):
                    held.commit_locked()
                    is_sure = self._heal_under_lock(lambda: self._look_after(instant, partitions))
            except rollbacks.WriterBusy as busy:
                self.job.log(f"{instant} is committed beside the writers: {busy}")
                is_given_up = held.would_hurt_writers
                if not is_given_up:
                    held.commit()
        if is_given_up:
            self.compact(instant, self.options)
        if not is_sure:
            self._look_beside_writers(partitions, may_heal=True)
        return [{"timestamp": instant, "state": "COMPLETED"}]

    def _look_after(self, instant: str, partitions: Sequence[str]) -> int:
        """Only what was written after the plan can be stray. Nobody archives a commit while the lock is held."""
        written = partitions_written_since(self.job, self.location, instant)
        return stray_keys(self.job, self.location, [one for one in partitions if one in written])

    def _look_beside_writers(self, partitions: Sequence[str], *, may_heal: bool) -> None:
        self.why_left = ""
        try:
            self._wait_for_begun_writes()
            self.job.phase("looking for stray keys")
            self.left = stray_keys(self.job, self.location, partitions)
            if self.left and may_heal:
                with without_writes(self.job, self.location):
                    self._heal_under_lock(lambda: stray_keys(self.job, self.location, partitions))
            elif self.left:
                self._leave("no lock is shared with the writers, under which a second compaction could be made")
        except (rollbacks.WriterBusy, Py4JError, PySparkException) as error:
            # The plan is executed. What could not be looked at or healed is reported, and not repeated.
            self._leave(reason_of(error))

    def _wait_for_begun_writes(self) -> None:
        """A write that began before the compaction was completed may still bring keys that were deleted."""
        begun = rollbacks.writes_under_way(self.job, self.location)
        self.job.phase(f"waiting for {len(begun)} writes that began before")
        rollbacks.wait_for_writes(self.job, self.location, timeout=BEGUN_TIMEOUT, only=frozenset(begun))

    def _heal_under_lock(self, look: Callable[[], int]) -> bool:
        """Whether no key is stray now. The caller holds the table's lock, and no write is under way.

        Writers of Hudi 0.15 begin without the lock: such a write may still bring a stray key.
        """
        limit = TimeLimit(self.job, float(self.job.parameters["lock_limit"]))
        try:
            with limit.kept():
                if found := look():
                    self._compact_again(found, look)
        except (Py4JError, PySparkException) as error:
            why = f"it takes longer than {limit.seconds:g} s under the lock" if limit.is_over else reason_of(error)
            self._leave(why)
            return False
        return not self.left and not rollbacks.writes_under_way(self.job, self.location)

    def _compact_again(self, found: int, look: Callable[[], int]) -> None:
        """A plan that is made now has all log files, but for file groups of plans that were made meanwhile."""
        self.found, self.left = max(self.found, found), found
        self.job.phase(f"compacting again, for {found} stray keys")
        others = self._pending()
        self._plan_and_compact(leave=others)
        self.left = look() if others else 0
        if self.left:
            self._compact_locked(others)
            self._plan_and_compact()
            self.left = look()
        self.why_left = "they are stray after a second compaction, too" if self.left else ""

    def _plan_and_compact(self, *, leave: Container[str] = ()) -> None:
        self.job.check()
        checks.check_under_lock(self.job)
        self.plan(inside_the_lock(self.job))
        self._compact_locked([one for one in self._pending() if one not in leave])

    def _compact_locked(self, instants: Sequence[str]) -> None:
        for instant in instants:
            self.instants.append(instant)
            self.job.note("healed_by", self.instants)
            self.compact(instant, inside_the_lock(self.job))

    def _pending(self) -> list[str]:
        return timelines.pending(self.job.session, self.location, "compaction")

    def _leave(self, why: str) -> None:
        self.found, self.why_left = max(self.found, self.left), why
        self.job.log(f"{self.left} stray keys are left: {why}")


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def inside_the_lock(job: Job) -> calls.Arguments:
    """The lock of a procedure that is called while the table's own is held."""
    return {"options": f"{timelines.PROVIDER}={timelines.inside_the_lock(job.session)[timelines.PROVIDER]}"}


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


def partitions_with_deletes(job: Job, location: str, instant: str) -> list[str]:
    """Those where the plan's logs have deletes, by the commits that wrote them. A commit that is gone may have some."""
    files = list_folder(job.session, timelines.folder(job.session, location))
    requested = [file for file in files if file.name == f"{instant}.compaction.requested"]
    operations = [one for file in requested for one in checks.read_document(job, file.path).get("operations") or ()]
    partitions = {
        name.rpartition("/")[2]: one.get("partitionPath") or ""
        for one in operations
        for name in one.get("deltaFilePaths") or ()
    }
    known: set[str] = set()
    found: set[str] = set()
    for _, stat in write_stats(job, files, since=first_instant(partitions)):
        names = {str(stat.get("path") or "").rpartition("/")[2], *(stat.get("logFiles") or ())} & partitions.keys()
        known |= names
        if int(stat.get("numDeletes") or 0):
            found |= {partitions[name] for name in names}
    return sorted(found | {partitions[name] for name in partitions.keys() - known})


def partitions_written_since(job: Job, location: str, instant: str) -> set[str]:
    """By delta commits that were completed after this instant."""
    files = list_folder(job.session, timelines.folder(job.session, location))
    return {partition for partition, _ in write_stats(job, files, since=instant.ljust(17, "0"))}


def first_instant(logs: Iterable[str]) -> str:
    """Names of log files have the instant of their commit, or in tables of version 6 that of the base file before."""
    return min((found[1].ljust(17, "0") for name in logs if (found := _LOG_FILE.fullmatch(name))), default="")


def write_stats(job: Job, timeline: Iterable[ListedFile], *, since: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of the delta commits that were completed since then, by partition; tables of version 6 say when they began."""
    for file in timeline:
        found = _DELTA_COMMIT.fullmatch(file.name)
        if found and file.size and (found[2] or found[1]).ljust(17, "0") >= since:
            with suppress(FileNotFoundError):  # a writer has archived it meanwhile
                stats = checks.read_document(job, file.path).get("partitionToWriteStats") or {}
                yield from ((partition, stat) for partition, group in stats.items() for stat in group)


def stray_keys(job: Job, location: str, partitions: Sequence[str]) -> int:
    """Live keys that come from a log file, and that no base file of their partition has."""
    if not partitions:
        return 0
    folders = [f"{location}/{partition}".rstrip("/") for partition in partitions]
    if len(folders) > MOST_PARTITIONS or any("*" in folder for folder in folders):
        folders = [location]
    in_logs = read(job, folders, "snapshot").where(~col(FILE).rlike(BASE_FILE)).select(PARTITION, KEY).cache()
    try:
        in_base = read(job, folders, "read_optimized").select(PARTITION, KEY)
        known = in_base.join(broadcast(in_logs), [PARTITION, KEY], "left_semi")
        return in_logs.join(known, [PARTITION, KEY], "left_anti").count()
    finally:
        in_logs.unpersist()


def read(job: Job, folders: Sequence[str], query: str) -> DataFrame:
    reader = job.session.read.format("hudi").option("hoodie.datasource.query.type", query)
    return reduce(DataFrame.unionByName, (reader.load(folder).select(PARTITION, KEY, FILE) for folder in folders))


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

    @property
    def would_hurt_writers(self) -> bool:
        """Whether a commit beside them would roll back what they have begun in the metadata table, and fail them."""
        return bool(self.client.getConfig().isMetadataTableEnabled())

    def commit_locked(self) -> None:
        """The caller holds the table's lock, which writers wait for."""
        self.job.check()
        checks.check_under_lock(self.job)
        with timelines.unlocked_client(self.job.session, self.location, COMMITTED_LATER) as client:
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
    with timelines.write_client(job.session, location, COMMITTED_LATER) as client:
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
