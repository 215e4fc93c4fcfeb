# SPDX-License-Identifier: Apache-2.0
"""What the rewriting jobs share: one commit with the operation tag in it, and never a second one."""

from collections.abc import Callable
from typing import Any

from lakehand.jobs.iceberg import outside, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, operation_tag

# Of Iceberg's options. Commits in several parts are not among them: after a crash, nobody could tell how much was done.
OPTIONS = frozenset(
    {
        "delete-file-threshold",
        "delete-ratio-threshold",
        "max-files-to-rewrite",
        "min-file-size-bytes",
        "min-input-files",
        "remove-dangling-deletes",
        "rewrite-all",
        "target-file-size-bytes",
        "use-starting-sequence-number",
    }
)


def run_rewrite(job: Job, begin: Callable[[Any], Any], count: Callable[[Any], dict[str, int]]) -> dict[str, Any]:
    """``begin`` makes the action for a table; ``count`` returns what it did, with the key ``rewritten``."""
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
    action = with_options(begin(table), job.parameters.get("rewrite") or {}).snapshotProperty(tables.TAG, tag)
    job.phase("rewriting")
    tables.check_commit(job, table)
    outcome = action.execute()
    job.phase("committed")
    return count(outcome)


def with_options(action: Any, options: dict[str, str]) -> Any:
    for key, value in options.items():
        if key not in OPTIONS:
            raise UnsafeRequest(f"{key!r} is no option of a rewrite that is used here")
        action = action.option(key, str(value))
    return action
