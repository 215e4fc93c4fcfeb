# SPDX-License-Identifier: Apache-2.0
"""Deletes the part of a log that is past its retention: exactly the files before one checkpoint, which is read first.

Not Delta's own clean-up: that goes by the times of files alone, believes ``_last_checkpoint``, and has no dry run.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from lakehand.jobs.delta import log_files, tables
from lakehand.jobs.delta.log_files import ListedLogFile
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, cut_off, operation_tag, whole_number, would_delete
from lakehand.jobs.spark import ListedFile, activate, hadoop, jvm, list_folder

FLOOR_HOURS = 168
BATCH = 1000


def run(job: Job) -> dict[str, Any]:
    operation_tag(job.parameters)
    keep_from = whole_number(job.parameters.get("keep_from"), "keep_from")
    job.phase("checking the boundary")
    snapshot = check_table(job)
    oldest = youngest_time(job, snapshot)
    job.phase("listing the log")
    doomed = expired_files(job, keep_from, oldest)
    job.phase(f"reading the checkpoint of version {keep_from}")
    check_checkpoint(job, keep_from)
    sidecars = unused_sidecars(job, keep_from, oldest)
    found = [*doomed, *sidecars]
    if job.parameters.get("dry_run") is not False:
        return would_delete([one.path for one in found], size=sum(one.size for one in found))
    job.check()
    job.phase(f"deleting {len(found)} files")
    oldest = min(oldest, youngest_time(job, check_table(job)))
    still = {*expired_files(job, keep_from, oldest), *sidecars}
    gone = delete(job, [one.path for one in found if one in still])
    return {"deleted_files": gone, "listed_files": len(found), "oldest": keep_from}


def check_table(job: Job) -> Any:
    """The newest version of the table that was admitted, with no link below it; refused where a log must be kept."""
    activate(job.session)
    job.boundary.check()
    snapshot = tables.newest_version(job)
    if not snapshot.deltaLog().enableExpiredLogCleanup(snapshot.metadata()):
        raise UnsafeRequest("the table's property delta.enableExpiredLogCleanup is false: its log is kept")
    feature = jvm(job.session).org.apache.spark.sql.delta.CheckpointProtectionTableFeature
    protected = int(feature.getCheckpointProtectionVersion(snapshot))
    if job.parameters["keep_from"] < protected:
        raise UnsafeRequest(f"checkpoints before version {protected} are protected: they may go only all at once")
    return snapshot


def youngest_time(job: Job, snapshot: Any) -> int:
    """Milliseconds since 1970: what is younger stays. The table's own retention counts when it is longer."""
    kept = int(snapshot.deltaLog().deltaRetentionMillis(snapshot.metadata()))
    return min(cut_off(job.parameters.get("older_than"), FLOOR_HOURS), int(time.time() * 1000) - kept)


def expired_files(job: Job, keep_from: int, oldest: int) -> list[ListedFile]:
    """Everything before the version; refused if it, or anything before it, is younger than it may be."""
    files = log_files.list_log(job)
    refuse_gap(files, keep_from)
    if keep_from not in log_files.checkpoints_of(files):
        raise UnsafeRequest(f"version {keep_from} has no checkpoint: what is before it stays")
    before = [file for file in files if file.version < keep_from]
    for file in (*before, log_files.commits_of(files)[keep_from]):
        if file.listed.modified * 1000 >= oldest:
            raise UnsafeRequest(f"{file.listed.path} is younger than the retention: nothing is deleted")
    return [file.listed for file in before]


def refuse_gap(files: Sequence[ListedLogFile], keep_from: int) -> None:
    commits = log_files.commits_of(files)
    newest = max(commits, default=keep_from)
    if missing := [version for version in range(keep_from, newest + 1) if version not in commits]:
        raise UnsafeRequest(f"the log has no commit {missing[0]}: nothing is deleted from a log with a gap")


def check_checkpoint(job: Job, version: int) -> None:
    """Read all of it: from now on, nothing else leads to this version."""
    java = jvm(job.session)
    path, none = java.org.apache.hadoop.fs.Path(job.boundary.real), java.scala.Option.empty()
    # Delta's cache may have the version as it was before there was a checkpoint.
    java.org.apache.spark.sql.delta.DeltaLog.invalidateCache(job.session._jsparkSession, path)
    snapshot = tables.newest_version(job).deltaLog().getSnapshotAt(version, none, none)
    if int(snapshot.checkpointProvider().version()) != version:
        raise UnsafeRequest(f"Delta does not use the checkpoint of version {version}: what is before it stays")
    snapshot.stateDS().count()


def unused_sidecars(job: Job, keep_from: int, oldest: int) -> list[ListedFile]:
    """Parts of checkpoints that no checkpoint will name; young ones may belong to one that is being written."""
    folder = f"{log_files.log_folder(job)}/{log_files.SIDECARS}"
    old = [one for one in list_folder(job.session, folder) if not one.is_folder and one.modified * 1000 < oldest]
    named = named_sidecars(job, keep_from) if old else set()
    return [one for one in old if one.name not in named]


def named_sidecars(job: Job, keep_from: int) -> set[str]:
    """By every checkpoint that stays."""
    kept = [file.listed.path for file in log_files.list_log(job) if file.version >= keep_from and is_checkpoint(file)]
    return {name for kind in ("parquet", "json") for name in sidecars_in(job, kind, kept)}


def is_checkpoint(file: ListedLogFile) -> bool:
    return file.kind == log_files.CHECKPOINT and file.listed.size > 0


def sidecars_in(job: Job, kind: str, checkpoints: Sequence[str]) -> Iterator[str]:
    chosen = [path for path in checkpoints if path.endswith(f".{kind}")]
    if chosen:
        reader = job.session.read.schema("sidecar struct<path: string>").format(kind).option("__globPaths__", "false")
        for row in reader.load(chosen).where("sidecar.path is not null").select("sidecar.path").collect():
            yield row["path"].rpartition("/")[2]


def delete(job: Job, paths: Sequence[str]) -> int:
    """Oldest first, so that whatever stops us leaves a shorter log, and no gap in it."""
    gone = 0
    files, _ = hadoop(job.session, log_files.log_folder(job))
    path_type = jvm(job.session).org.apache.hadoop.fs.Path
    for start in range(0, len(paths), BATCH):
        batch = paths[start : start + BATCH]
        job.check()
        job.boundary.check_path()
        job.boundary.refuse_outside(batch, doing="delete")
        gone += sum(bool(files.delete(path_type(path), False)) for path in batch)
        job.phase(f"deleted {gone} files of the log")
    return gone
