# SPDX-License-Identifier: Apache-2.0
"""A job that touches no table: proves that Spark runs, and for tests of engines can be slow, fail or ignore cancels.

Parameters, all optional: ``rows``, ``partitions``, ``pause`` (milliseconds per row, inside the tasks), ``fail`` (a
message to fail with, inside a task), ``deaf`` (seconds in which the job ignores everything), ``notes``.
"""

import time
from typing import Any

from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    wanted = job.parameters
    for key, value in wanted.get("notes", {}).items():
        job.note(key, value)
    if seconds := wanted.get("deaf"):
        job.phase("not listening")
        time.sleep(float(seconds))
    job.phase("counting")
    rows = count(job, int(wanted.get("rows", 1000)), int(wanted.get("partitions", 2)))
    if message := wanted.get("fail"):
        job.session.sql("SELECT raise_error(:message)", {"message": str(message)}).collect()
    job.check()
    return {"rows": rows, "spark": job.session.version}


def count(job: Job, rows: int, partitions: int) -> int:
    """Sleeping is Java's own, so that no Python is needed where the tasks run."""
    pause = int(job.parameters.get("pause", 0))
    numbers = job.session.range(0, rows, 1, partitions)
    if pause:
        numbers = numbers.selectExpr("id", f"reflect('java.lang.Thread', 'sleep', {pause}L) AS slept")
        numbers.write.format("noop").mode("append").save()
    return int(job.session.range(0, rows, 1, partitions).count())
