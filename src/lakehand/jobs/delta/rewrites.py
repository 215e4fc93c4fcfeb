# SPDX-License-Identifier: Apache-2.0
"""What the rewriting jobs share: the session's settings, one statement, and its outcome in numbers."""

from typing import Any

from lakehand.jobs.delta import history, snapshots, statements
from lakehand.jobs.job import Job

DELTA = "spark.databricks.delta."
COUNTS = ("numFilesAdded", "numFilesRemoved", "totalConsideredFiles", "numBatches", "partitionsOptimized")


def rewrite(job: Job, statement: str) -> dict[str, Any]:
    """Run a statement that rewrites files, unless an earlier attempt of the operation has done it."""
    job.phase("checking the boundary")
    check_table(job)
    settle(job)
    job.phase("looking at the history")
    done = [int(one["version"]) for one in history.own_commits(job)]
    if done:
        return {"already_done": True, "versions": done, "nothing_to_do": False}
    job.check()
    job.phase(statement.split(" ", 1)[0].lower())
    snapshots.refuse_foreign_files(job, check_table(job))
    metrics = counted(job.session.sql(statement).collect())
    job.note("metrics", metrics)
    idle = not metrics.get("numFilesAdded") and not metrics.get("numFilesRemoved")
    return {"already_done": False, "nothing_to_do": idle, "metrics": metrics}


def check_table(job: Job) -> Any:
    """The table is the one that was admitted, with no link below it. Returns its newest version."""
    job.boundary.check()
    snapshot = snapshots.newest(job)
    snapshots.refuse_other_table(job, snapshot)
    return snapshot


def settle(job: Job) -> None:
    """The session's settings: our tag in every commit, and files of the wanted size."""
    small = statements.whole(job.parameters["small_bytes"], "small_bytes")
    target = statements.whole(job.parameters["target_bytes"], "target_bytes")
    job.session.conf.set(DELTA + "commitInfo.userMetadata", statements.tag_of(job.parameters["operation_tag"]))
    job.session.conf.set(DELTA + "optimize.minFileSize", str(small))
    job.session.conf.set(DELTA + "optimize.maxFileSize", str(target))


def counted(rows: list[Any]) -> dict[str, int]:
    """Numbers for people; whether there was an effect is asked of the table."""
    found: dict[str, int] = {}
    for row in rows:
        metrics = row["metrics"].asDict()
        for key in COUNTS:
            if isinstance(metrics.get(key), int):
                found[key] = found.get(key, 0) + metrics[key]
    return found
