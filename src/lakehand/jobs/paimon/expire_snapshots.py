# SPDX-License-Identifier: Apache-2.0
"""Expires old snapshots, in steps, from the oldest on; Paimon itself keeps what tags and consumers need."""

import time
from collections.abc import Iterator
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon.branches import first_needed
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target, target_of
from lakehand.jobs.safety import BelowFloor

LEAST_AGE = 3600  # seconds
STEP = 100  # snapshots between two looks at whether the job may go on
MOST = 2147483647
SHOWN = 1000


def run(job: Job) -> dict[str, Any]:
    until, cutoff, retained = checked(job.parameters)
    target = target_of(job)
    guard = TableGuard(job, target)
    table = guard.check()
    until = min([until, *first_needed(table)])
    if job.parameters.get("dry_run"):
        return listed(guard, table, min(until, consumed_until(target, table)), cutoff)
    expired = 0
    while (earliest := table.snapshotManager().earliestSnapshotId()) is not None and earliest < until:
        job.check()
        job.phase(f"expiring from snapshot {earliest} to {until - 1}")
        most = min(until - earliest, STEP)
        guard.check()
        guard.check_history(table, earliest, earliest + most)
        done = expire(target, table, cutoff=cutoff, retained=retained, most=most)
        expired += done
        job.note("expired", expired)
        if not done:
            break
    return {"expired": expired}


def checked(parameters: dict[str, Any]) -> tuple[int, int, int]:
    """The limits; whatever is under the floor is refused, wherever it comes from."""
    until, cutoff, retained = (parameters.get(key) for key in ("until", "cutoff", "retain_last"))
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in (until, cutoff, retained)):
        raise BelowFloor("until, cutoff and retain_last are whole numbers")
    assert isinstance(until, int)
    assert isinstance(cutoff, int)
    assert isinstance(retained, int)
    if retained < 1:
        raise BelowFloor(f"at least 1 snapshot stays, and retain_last is {retained}")
    if cutoff > (time.time() - LEAST_AGE) * 1000:
        raise BelowFloor(f"snapshots of the last {LEAST_AGE} seconds stay, and the cutoff is younger")
    return until, cutoff, retained


def expire(target: Target, table: Any, *, cutoff: int, retained: int, most: int) -> int:
    jvm = target.jvm
    age = jvm.java.time.Duration.ofMillis(int(time.time() * 1000) - cutoff)
    builder = jvm.org.apache.paimon.options.ExpireConfig.builder()
    builder.snapshotRetainMax(MOST).snapshotRetainMin(retained).snapshotTimeRetain(age).snapshotMaxDeletes(most)
    options = table.coreOptions()
    if options.changelogLifecycleDecoupled():  # else changelogs would go with their snapshots
        builder.changelogRetainMax(options.changelogNumRetainMax()).changelogRetainMin(options.changelogNumRetainMin())
        builder.changelogTimeRetain(options.changelogTimeRetain())
    return int(table.newExpireSnapshots().config(builder.build()).expire())


def listed(guard: TableGuard, table: Any, until: int, cutoff: int) -> dict[str, Any]:
    """What would go: the snapshots, and the data files that no later snapshot and no tag reads."""
    job = guard.job
    job.phase("listing what would go")
    manager = table.snapshotManager()
    first = manager.earliestSnapshotId()
    numbers = list(old_ones(manager, first, until, cutoff)) if first is not None else []
    paths = [(manager.snapshotPath(number).toString(), 0) for number in numbers]
    for number in [n + 1 for n in numbers]:
        job.check()
        guard.check_history(table, number - 1, number)
        paths += deleted_by(table, manager.snapshot(number))
    return {
        "would_delete": [path for path, _ in paths[:SHOWN]],
        "would_delete_files": len(paths),
        "would_delete_bytes": sum(size for _, size in paths),
        "would_expire": len(numbers),
    }


def consumed_until(target: Target, table: Any) -> int:
    consumers = target.jvm.org.apache.paimon.consumer.ConsumerManager(table.fileIO(), table.location())
    return int(consumers.minNextSnapshot().orElse(MOST))


def old_ones(manager: Any, first: int, until: int, cutoff: int) -> Iterator[int]:
    for number in range(first, until):
        if manager.snapshot(number).timeMillis() >= cutoff:
            return
        yield number


def deleted_by(table: Any, snapshot: Any) -> list[tuple[str, int]]:
    """The files that a snapshot stopped using: they go when the one before it does."""
    store = table.store()
    tags = store.newTagManager().taggedSnapshots()
    is_kept = store.newSnapshotDeletion().createDataFileSkipperForTags(tags, snapshot.id())
    lists, manifests = store.manifestListFactory().create(), store.manifestFileFactory().create()
    entries = [e for meta in lists.read(snapshot.deltaManifestList()) for e in manifests.read(meta.fileName())]
    added = {entry.file().fileName() for entry in entries if entry.kind().toString() == "ADD"}
    gone = [e for e in entries if e.kind().toString() != "ADD" and e.file().fileName() not in added]
    return [(path_of(store, e), e.file().fileSize()) for e in gone if not is_kept.test(e)]


def path_of(store: Any, entry: Any) -> str:
    factory = store.pathFactory().createDataFilePathFactory(entry.partition(), entry.bucket())
    return str(factory.toPath(entry.file().fileName()).toString())
