# SPDX-License-Identifier: Apache-2.0
"""Drops partitions that are past their age: exactly those that were announced, with exactly the files they had.

Paimon's own procedure chooses anew when it runs, drops what a writer adds meanwhile, and leaves no name in the history.
"""

from contextlib import closing
from typing import Any, NamedTuple

from lakehand.jobs.job import Job
from lakehand.jobs.paimon.expire_snapshots import path_of
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.rewrites import BATCH
from lakehand.jobs.paimon.tables import Target, own_commits, target_of, user_of
from lakehand.jobs.safety import LISTED, UnsafeRequest, cut_off, would_delete

LEAST_HOURS = 168
MOST = 10_000  # partitions, whatever the parameters say
ZONES = 12 * 3_600_000  # milliseconds by which the service keeps longer, since no partition says in which zone it is
STRATEGY, BY_VALUES = "partition.expiration-strategy", "values-time"
MAIN = "main"


class PartitionsChanged(Exception):
    """A writer changed a partition after it was announced: it wins, and the next attempt plans anew."""


class Announced(NamedTuple):
    name: str
    files: int
    rows: int


def run(job: Job) -> dict[str, Any]:
    cutoff, announced = cut_off(job.parameters.get("cutoff"), LEAST_HOURS), announced_by(job.parameters)
    target, user, before = target_of(job), user_of(job), int(job.parameters["before"])
    guard = TableGuard(job, target)
    table = guard.check()
    if done := own_commits(table, user, before):
        return {"snapshots": done, "already_done": True}
    if not announced:
        return {"snapshots": [], **(would_delete([]) if job.parameters.get("dry_run") else {})}
    job.phase(f"comparing {len(announced)} partitions with the table")
    guard.check_newest(table)
    if job.parameters.get("dry_run"):
        return list_dropped(PartitionDrop(guard, table, announced, cutoff), announced)
    return {"snapshots": drop(guard, table, announced, cutoff, user)}


def announced_by(parameters: dict[str, Any]) -> dict[bytes, Announced]:
    try:
        found = {
            bytes.fromhex(one["key"]): Announced(str(one["name"]), int(one["files"]), int(one["rows"]))
            for one in parameters["partitions"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UnsafeRequest(f"the work does not say which partitions to drop: {error!r}") from None
    if len(found) > MOST:
        raise UnsafeRequest(f"{len(found)} partitions are more than {MOST}, the most of one run")
    return found


class PartitionDrop:
    """What a commit on top of one snapshot would take away; raises when that is not what was announced."""

    def __init__(self, guard: TableGuard, table: Any, announced: dict[bytes, Announced], cutoff: int) -> None:
        self.target, self.store = guard.target, table.store()
        self.snapshot = table.snapshotManager().latestSnapshot()
        entries = {self.key(one): one for one in self.scan().readPartitionEntries()}
        found = {key: entries.get(key) for key in announced}
        refuse_changed(announced, found)
        refuse_young(guard.target, self.store, guard.job.parameters.get("rule"), list(found.values()), cutoff)
        self.partitions = self.target.jvm.java.util.ArrayList([one.partition() for one in found.values() if one])
        self.files = self.scan().withPartitionFilter(self.partitions).plan().files()
        self.dropped = frozenset(announced)

    def scan(self) -> Any:
        return self.store.newScan().withSnapshot(self.snapshot)

    def key(self, entry: Any) -> bytes:
        """The partition of a file, of an index or of a summary."""
        return self.target.partition_bytes(entry)

    def deletions(self) -> Any:
        paimon, gone = self.target.jvm.org.apache.paimon.manifest, self.target.jvm.java.util.ArrayList()
        for one in self.files:
            fields = one.partition(), one.bucket(), one.totalBuckets(), one.file()
            gone.add(paimon.ManifestEntry(paimon.FileKind.DELETE, *fields))
        return gone

    def index_deletions(self) -> Any:
        """Of deletion vectors, and of the index that finds buckets by key."""
        gone, index = self.target.jvm.java.util.ArrayList(), self.snapshot.indexManifest()
        for one in self.store.newIndexFileHandler().readManifestWithIOException(index) if index else ():
            if self.key(one) in self.dropped:
                gone.add(one.toDeleteEntry())
        return gone

    def commit(self, user: str) -> bool:
        """As Paimon's own overwrite, and only as the very next snapshot: false when a writer made that one.

        The table's commit has its lock and callbacks; it is write-only here, so that it expires nothing.
        """
        with closing(self.target.load(write_only="true").newCommit(f"{user}_partitions")) as made:
            return self.try_commit(self.target.hidden_field(made, "commit"))

    def try_commit(self, commit: Any) -> bool:
        java = self.target.jvm.java.util
        overwrite = getattr(self.target.jvm, "org.apache.paimon.Snapshot$CommitKind").OVERWRITE
        checked = self.target.call_hidden(commit, "mustConflictCheck")
        done = self.target.call_hidden(
            commit, "tryCommitOnce", self.deletions(), java.ArrayList(), self.index_deletions(), BATCH, None,
            java.HashMap(), overwrite, self.snapshot, checked, MAIN, None,
        )  # fmt: skip
        return bool(done)


def refuse_changed(announced: dict[bytes, Announced], found: dict[bytes, Any]) -> None:
    for key, one in announced.items():
        now = found[key]
        files, rows = (int(now.fileCount()), int(now.recordCount())) if now is not None else (0, 0)
        if (files, rows) != (one.files, one.rows):
            raise PartitionsChanged(
                f"conflicts detected: {one.name} has {rows} rows in {files} files now, and was announced with"
                f" {one.rows} rows in {one.files} files. Nothing was dropped"
            )


def refuse_young(target: Target, store: Any, rule: Any, entries: list[Any], cutoff: int) -> None:
    """By Paimon's own rule, so that a value that we read in another way is not dropped."""
    jvm, options = target.jvm, target.jvm.java.util.HashMap()
    for key, value in (rule if isinstance(rule, dict) else {}).items():
        options.put(str(key), str(value))
    strategies = jvm.org.apache.paimon.partition.PartitionExpireStrategy
    strategy = strategies.createPartitionExpireStrategy(
        jvm.org.apache.paimon.CoreOptions.fromMap(options), store.partitionType()
    )
    until, time = cutoff + ZONES, jvm.java.time
    local = time.LocalDateTime.ofInstant(time.Instant.ofEpochMilli(until), time.ZoneId.systemDefault())
    for one in entries:
        is_by_values = options.getOrDefault(STRATEGY, BY_VALUES) == BY_VALUES
        is_old = strategy.isExpired(local, one.partition()) if is_by_values else one.lastFileCreationTime() < until
        if not is_old:
            name = store.pathFactory().getPartitionString(one.partition())
            raise UnsafeRequest(f"Paimon itself would keep the partition {name}: nothing was dropped")


def drop(guard: TableGuard, table: Any, announced: dict[bytes, Announced], cutoff: int, user: str) -> list[int]:
    """Again from the new snapshot when a writer was faster, for as long as it leaves these partitions alone."""
    job = guard.job
    while True:
        job.check()
        work = PartitionDrop(guard, table, announced, cutoff)
        job.phase(f"committing on top of snapshot {work.snapshot.id()}")
        job.check()
        table = guard.check()
        guard.check_newest(table)
        if work.commit(user):
            done = [int(work.snapshot.id()) + 1]
            job.note("committed", done)
            return done


def list_dropped(work: PartitionDrop, announced: dict[bytes, Announced]) -> dict[str, Any]:
    """What would go. The files stay on disk until the snapshots that have them expire."""
    paths = [path_of(work.store, one) for one in work.files.subList(0, min(work.files.size(), LISTED))]
    entries = work.scan().withPartitionFilter(work.partitions).readPartitionEntries()
    size = sum(int(one.fileSizeInBytes()) for one in entries)
    listed = [{"partition": one.name, "files": one.files, "rows": one.rows} for one in announced.values()]
    return {**would_delete(paths, work.files.size(), size), "would_expire": listed}
