# SPDX-License-Identifier: Apache-2.0
"""What the two jobs that compute statistics share: one file for one snapshot, set once. No snapshot is made."""

from collections.abc import Callable
from typing import Any

from lakehand.jobs.iceberg import outside, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, operation_tag


class SnapshotGone(Exception):
    """Somebody expired the snapshot that was to get statistics: the next attempt takes the current one."""


def compute(job: Job, kind: str, stage: Callable[[Any, Any, int], None]) -> dict[str, Any]:
    """``kind``: as the metadata calls the list of files; ``stage``: computes for a table, its transaction, a snapshot.

    The snapshot is the one that was current when the operation was admitted: what others commit meanwhile is theirs.
    In a transaction, because Iceberg sets statistics in one attempt: one commit of a writer, and all was in vain.
    """
    operation_tag(job.parameters)
    job.phase("reading the table")
    table, target = tables.load(job), snapshot_of(job)
    if table.snapshot(target) is None:
        raise SnapshotGone(f"snapshot {target} was expired before its {kind} were computed")
    if (known := file_of(job, table, kind, target)) and known != job.parameters.get("replaces"):
        return {"already": True, "statistics": known}
    job.check()
    job.phase("checking that the files are the table's")
    outside.refuse_foreign_files(job, table, target)
    job.phase(f"computing {kind} of snapshot {target}")
    tables.check_commit(job, table)
    transaction = table.newTransaction()
    stage(table, transaction, target)
    job.phase(f"setting {kind} of snapshot {target}")
    tables.check_commit(job, table)
    transaction.commitTransaction()
    job.phase("committed")
    table.refresh()
    return {"already": False, "statistics": file_of(job, table, kind, target)}


def snapshot_of(job: Job) -> int:
    target = job.parameters.get("before")
    if isinstance(target, bool) or not isinstance(target, int):
        raise UnsafeRequest(f"{target!r} is not a snapshot")
    return target


def file_of(job: Job, table: Any, kind: str, target: int) -> str | None:
    """The file that the metadata has for a snapshot."""
    entries = tables.document(job.session, table.operations().current()).get(kind) or []
    return next((entry["statistics-path"] for entry in entries if entry["snapshot-id"] == target), None)
