# SPDX-License-Identifier: Apache-2.0
"""What the rewriting jobs share: one statement in a checked table, and its outcome in numbers."""

from typing import Any

from lakehand.jobs.delta import tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import whole_number

COUNTS = ("numFilesAdded", "numFilesRemoved", "totalConsideredFiles", "numBatches", "partitionsOptimized")


def rewrite(job: Job, statement: str) -> dict[str, Any]:
    """Run a statement that rewrites files, unless an earlier attempt of the operation has done it."""
    job.phase("checking the boundary")
    check_table(job)
    small = whole_number(job.parameters["small_bytes"], "small_bytes")
    target = whole_number(job.parameters["target_bytes"], "target_bytes")
    tables.configure(job, optimize__minFileSize=small, optimize__maxFileSize=target)
    job.phase("reading the history")
    if done := [int(one["version"]) for one in tables.own_commits(job)]:
        return {"already_done": True, "versions": done, "nothing_to_do": False}
    job.check()
    job.phase(statement.split(" ", 1)[0].lower())
    tables.refuse_foreign_files(job, check_table(job))
    metrics = total_metrics(job.session.sql(statement).collect())
    job.note("metrics", metrics)
    idle = not metrics.get("numFilesAdded") and not metrics.get("numFilesRemoved")
    return {"already_done": False, "nothing_to_do": idle, "metrics": metrics}


def check_table(job: Job) -> Any:
    """The table is the one that was admitted, with no link below it. Returns its newest version."""
    job.boundary.check()
    return tables.newest_version(job)


def total_metrics(rows: list[Any]) -> dict[str, int]:
    """Numbers for people; the table itself says whether there was an effect."""
    found: dict[str, int] = {}
    for row in rows:
        metrics = row["metrics"].asDict()
        for key in COUNTS:
            if isinstance(metrics.get(key), int):
                found[key] = found.get(key, 0) + metrics[key]
    return found
