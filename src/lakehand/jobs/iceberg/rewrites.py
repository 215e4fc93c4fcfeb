# SPDX-License-Identifier: Apache-2.0
"""What the rewriting jobs share: one commit with the operation tag in it, and never a second one."""

from collections.abc import Callable, Mapping
from typing import Any

from lakehand.jobs.iceberg import outside, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, operation_tag

# Of Iceberg's options. Commits in several parts are not among them: after a crash, nobody could tell how much was done.
OPTIONS = frozenset(
    {"delete-file-threshold", "delete-ratio-threshold", "max-files-to-rewrite", "min-file-size-bytes", "rewrite-all"}
    | {"min-input-files", "remove-dangling-deletes", "target-file-size-bytes", "use-starting-sequence-number"}
)


def run_rewrite(
    job: Job, name: str, counts: Mapping[str, str], prepare: Callable[[Any, Any], Any] = lambda _, action: action
) -> dict[str, Any]:
    """Run one of Iceberg's Spark actions, which ``prepare`` may change for the table.

    ``counts`` has the methods of its outcome that count what it did, by key of the result.
    """
    tag = operation_tag(job.parameters)
    job.phase("reading the table")
    table = tables.load(job)
    if done := tables.tagged(job.session, table, tag):
        return {"already": True, "snapshots": done}
    if table.currentSnapshot() is None:
        return {"rewritten": 0}
    job.check()
    job.phase("checking that the files are the table's")
    outside.refuse_foreign_files(job, table)
    action = prepare(table, getattr(tables.actions(job.session), name)(table))
    action = with_options(action, job.parameters.get("rewrite") or {}).snapshotProperty(tables.TAG, tag)
    job.phase("rewriting")
    tables.check_commit(job, table)
    outcome = action.execute()
    job.phase("committed")
    counted = {key: number(getattr(outcome, method)()) for key, method in counts.items()}
    return {**counted, "snapshots": tables.tagged(job.session, table, tag)}


def number(found: Any) -> int:
    """A count, or the length of what Java lists."""
    return found if isinstance(found, int) else sum(1 for _ in found)


def with_options(action: Any, options: dict[str, str]) -> Any:
    for key, value in options.items():
        if key not in OPTIONS:
            raise UnsafeRequest(f"{key!r} is not an option of a rewrite that is used here")
        action = action.option(key, str(value))
    return action
