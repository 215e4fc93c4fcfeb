# SPDX-License-Identifier: Apache-2.0
"""Deletes files that nothing refers to: Paimon lists them, and we compare with all that refers to files ourselves."""

from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon import references
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target, target_of
from lakehand.jobs.safety import cut_off, refuse_implausible, would_delete
from lakehand.jobs.spark import hadoop

LEAST_HOURS = 72
STEP = 100


def run(job: Job) -> dict[str, Any]:
    older_than = cut_off(job.parameters.get("older_than"), LEAST_HOURS)
    target = target_of(job)
    guard = TableGuard(job, target)
    table = guard.check(lists=True)
    references.check_names(guard, table)
    job.phase("listing files that nothing refers to")
    listed = candidates(target, table, older_than)
    job.check()
    job.phase("reading everything that refers to files")
    refuse_live_ones(listed, references.used_names(guard, table))
    job.boundary.refuse_outside((path.toString() for path in listed), doing="delete")
    orphans = still_old(table, listed, older_than)
    paths, size, total = [path for path, _ in orphans], sum(size for _, size in orphans), count_files(target, table)
    found = {"orphans": len(paths), "orphan_bytes": size, "listed_files": total}
    if job.parameters.get("dry_run"):
        return {**found, **would_delete([path.toString() for path in paths], size=size)}
    refuse_implausible(job.parameters, len(paths), total)
    guard.check(lists=True)
    return {**found, "deleted_files": delete(job, table, paths)}


def candidates(target: Target, table: Any, older_than: int) -> list[Any]:
    """What Paimon would delete, without deleting it: its files are given to a list instead of its cleaner."""
    jvm = target.jvm
    moment = jvm.java.text.SimpleDateFormat("yyyy-MM-dd HH:mm:ss").format(jvm.java.util.Date(older_than))
    clean = jvm.org.apache.paimon.operation.OrphanFilesClean(table).olderThan(moment)
    found = clean.fileCleaner(consumer_into(jvm, jvm.java.util.ArrayList())).clean()
    files = table.fileIO()
    return [path for path in found if not files.isDir(path)]


def consumer_into(jvm: Any, collected: Any) -> Any:
    """A Java consumer that only adds to a list."""
    handles, types, named = jvm.java.lang.invoke, jvm.java.lang.invoke.MethodType, jvm.java.lang.Class.forName
    add = types.fromMethodDescriptorString("(Ljava/lang/Object;)Z", None)
    accept = types.fromMethodDescriptorString("(Ljava/lang/Object;)V", None)
    handle = handles.MethodHandles.publicLookup().findVirtual(named("java.util.ArrayList"), "add", add)
    handle = handle.bindTo(collected).asType(accept)
    return handles.MethodHandleProxies.asInterfaceInstance(named("java.util.function.Consumer"), handle)


def refuse_live_ones(listed: list[Any], used: set[str]) -> None:
    if live := [path.toString() for path in listed if path.getName() in used]:
        raise references.MetadataUnreadable(
            f"{len(live)} of {len(listed)} files that Paimon calls orphans are in use, {live[0]} first: it could not "
            "read everything. Nothing was deleted"
        )


def still_old(table: Any, listed: list[Any], older_than: int) -> list[tuple[Any, int]]:
    """Each file with its size, checked once more: what was touched meanwhile stays."""
    seen = [(path, table.fileIO().getFileStatus(path)) for path in listed]
    return [(path, int(status.getLen())) for path, status in seen if status.getModificationTime() < older_than]


def count_files(target: Target, table: Any) -> int:
    files, path = hadoop(target.session, table.location().toString())
    return int(files.getContentSummary(path).getFileCount())


def delete(job: Job, table: Any, paths: list[Any]) -> int:
    deleted = 0
    for start in range(0, len(paths), STEP):
        job.check()
        job.phase(f"deleting {len(paths)} files, {start} done")
        batch = paths[start : start + STEP]
        job.boundary.check_path()
        job.boundary.refuse_outside((path.toString() for path in batch), doing="delete")
        deleted += sum(bool(table.fileIO().delete(path, False)) for path in batch)
        job.note("deleted_files", deleted)
    return deleted
