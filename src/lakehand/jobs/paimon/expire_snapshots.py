# SPDX-License-Identifier: Apache-2.0
"""Expires old snapshots, in steps, from the oldest on; Paimon itself keeps what tags and consumers need."""

import time
from itertools import takewhile
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.references import first_needed_by_branches
from lakehand.jobs.paimon.tables import Target, target_of
from lakehand.jobs.safety import cut_off, whole_number, would_delete

LEAST_HOURS = 1
STEP = 100  # snapshots between two checks whether the job may go on
MOST = 2147483647


def run(job: Job) -> dict[str, Any]:
    until = whole_number(job.parameters.get("until"), "until", 0)
    retained = whole_number(job.parameters.get("retain_last"), "retain_last")
    oldest = cut_off(job.parameters.get("cutoff"), LEAST_HOURS)
    target = target_of(job)
    guard = TableGuard(job, target)
    table = guard.check()
    until = min([until, *first_needed_by_branches(table)])
    if job.parameters.get("dry_run"):
        return list_expired(guard, table, min(until, consumed_until(target, table)), oldest)
    expired = 0
    while (earliest := table.snapshotManager().earliestSnapshotId()) is not None and earliest < until:
        job.check()
        job.phase(f"expiring from snapshot {earliest} to {until - 1}")
        most = min(until - earliest, STEP)
        guard.check()
        guard.check_history(table, earliest, earliest + most)
        done = expire(target, table, oldest=oldest, retained=retained, most=most)
        expired += done
        job.note("expired", expired)
        if not done:
            break
    return {"expired": expired}


def expire(target: Target, table: Any, *, oldest: int, retained: int, most: int) -> int:
    jvm = target.jvm
    age = jvm.java.time.Duration.ofMillis(int(time.time() * 1000) - oldest)
    builder = jvm.org.apache.paimon.options.ExpireConfig.builder()
    builder.snapshotRetainMax(MOST).snapshotRetainMin(retained).snapshotTimeRetain(age).snapshotMaxDeletes(most)
    options = table.coreOptions()
    if options.changelogLifecycleDecoupled():  # else changelogs would go with their snapshots
        builder.changelogRetainMax(options.changelogNumRetainMax()).changelogRetainMin(options.changelogNumRetainMin())
        builder.changelogTimeRetain(options.changelogTimeRetain())
    return int(table.newExpireSnapshots().config(builder.build()).expire())


def list_expired(guard: TableGuard, table: Any, until: int, oldest: int) -> dict[str, Any]:
    """What would go: the snapshots, and the data files that no later snapshot and no tag reads."""
    guard.job.phase("listing what would go")
    manager = table.snapshotManager()
    there = range(manager.earliestSnapshotId() or until, until)
    numbers = list(takewhile(lambda number: manager.snapshot(number).timeMillis() < oldest, there))
    files = [(manager.snapshotPath(number).toString(), 0) for number in numbers]
    for number in numbers:
        guard.job.check()
        guard.check_history(table, number, number + 1)
        files += deleted_by(table, manager.snapshot(number + 1))
    report = would_delete([path for path, _ in files], size=sum(size for _, size in files))
    return {**report, "would_expire": len(numbers)}


def consumed_until(target: Target, table: Any) -> int:
    consumers = target.jvm.org.apache.paimon.consumer.ConsumerManager(table.fileIO(), table.location())
    return int(consumers.minNextSnapshot().orElse(MOST))


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
