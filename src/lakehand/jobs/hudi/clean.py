# SPDX-License-Identifier: Apache-2.0
"""Cleans a table: deletes files of old versions. Hudi's procedure wants a table name, so the location gets one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehand.jobs.hudi import calls, timelines
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    location, parameters = job.parameters["location"], job.parameters
    options = calls.use_options(job.session, parameters["options"])
    job.phase("looking for pending plans")
    waiting = timelines.pending(job.session, location, "clean")
    may_plan = parameters["mode"] == "plan-and-execute" and bool(parameters.get("may_plan"))
    if not waiting and not may_plan:
        return {"instants": [], "planned": [], "rows": []}
    job.check()
    job.phase(f"executing {', '.join(waiting)}" if waiting else "planning and executing")
    arguments: dict[str, calls.Value] = {"schedule_in_line": not waiting, **retention(parameters), **options}
    with borrowed_name(job.session, location, job.handle) as name:
        rows = calls.call(job.session, "run_clean", {"table": name, **arguments})
    planned = [] if waiting else [row["start_clean_time"] for row in rows]
    return {"instants": waiting or planned, "planned": planned, "rows": [calls.plain(row) for row in rows]}


def retention(parameters: dict[str, Any]) -> dict[str, calls.Value]:
    return {
        "clean_policy": "KEEP_LATEST_COMMITS",
        "retain_commits": int(parameters["retain_commits"]),
        "trigger_strategy": "NUM_COMMITS",
        "trigger_max_commits": 1,
    }


@contextmanager
def borrowed_name(session: SparkSession, location: str, handle: str) -> Iterator[str]:
    """A table name for a location, for as long as it is needed; dropping it leaves the table itself alone."""
    name = f"default.lakehand_{re.sub('[^a-z0-9]', '_', handle.lower())}_{uuid4().hex[:8]}"
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION {calls.literal(location)}")
    try:
        yield name
    finally:
        session.sql(f"DROP TABLE IF EXISTS {name}")
