# SPDX-License-Identifier: Apache-2.0
"""Deletes files that nothing refers to: Paimon lists them, and we compare with all that refers to files ourselves."""

import time
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon import references
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target, target_of
from lakehand.jobs.safety import BelowFloor, refuse_implausible

LEAST_AGE = 3 * 86400  # seconds
SHOWN = 1000
STEP = 100


def run(job: Job) -> dict[str, Any]:
    older_than = checked(job.parameters)
    target = target_of(job)
    guard = TableGuard(job, target)
    table = guard.check(lists=True)
    references.check_names(guard, table)
    job.phase("listing files that nothing refers to")
    listed = candidates(target, table, older_than)
    job.check()
    job.phase("reading everything that refers to files")
    used = references.used_names(guard, table)
    refuse_live_ones(listed, used)
    job.boundary.refuse_outside((path.toString() for path in listed), doing="delete")
    orphans = still_old(table, listed, older_than)
    total = count_files(target, table)
    found = {"orphans": len(orphans), "orphan_bytes": sum(size for _, size in orphans), "listed_files": total}
    if job.parameters.get("dry_run"):
        return {**found, **shown(orphans)}
    refuse_implausible(len(orphans), total, is_confirmed=job.parameters.get("confirm") is True)
    guard.check(lists=True)
    return {**found, "deleted_files": delete(job, table, [path for path, _ in orphans])}


def checked(parameters: dict[str, Any]) -> int:
    """Milliseconds since 1970: only older files may go. Whatever is under the floor is refused."""
    older_than = parameters.get("older_than")
    if not isinstance(older_than, int) or isinstance(older_than, bool):
        raise BelowFloor("older_than is a whole number of milliseconds")
    if older_than > (time.time() - LEAST_AGE) * 1000:
        raise BelowFloor("files of the last 3 days stay, and older_than is younger")
    return older_than


def candidates(target: Target, table: Any, older_than: int) -> list[Any]:
    """What Paimon would delete, without deleting it: its files are given to a list instead of its cleaner."""
    jvm = target.jvm
    moment = jvm.java.text.SimpleDateFormat("yyyy-MM-dd HH:mm:ss").format(jvm.java.util.Date(older_than))
    clean = jvm.org.apache.paimon.operation.OrphanFilesClean(table).olderThan(moment)
    found = clean.fileCleaner(into(jvm, jvm.java.util.ArrayList())).clean()
    files = table.fileIO()
    return [path for path in found if not files.isDir(path)]


def into(jvm: Any, collected: Any) -> Any:
    """A consumer of Java's that only adds to a list."""
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
    """Each file with its size, looked at once more: what was touched meanwhile stays."""
    seen = [(path, table.fileIO().getFileStatus(path)) for path in listed]
    return [(path, int(status.getLen())) for path, status in seen if status.getModificationTime() < older_than]


def count_files(target: Target, table: Any) -> int:
    place = target.jvm.org.apache.hadoop.fs.Path(table.location().toString())
    configuration = target.session._jsparkSession.sessionState().newHadoopConf()
    return int(place.getFileSystem(configuration).getContentSummary(place).getFileCount())


def shown(orphans: list[tuple[Any, int]]) -> dict[str, Any]:
    return {
        "would_delete": [path.toString() for path, _ in orphans[:SHOWN]],
        "would_delete_files": len(orphans),
        "would_delete_bytes": sum(size for _, size in orphans),
    }


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
