# SPDX-License-Identifier: Apache-2.0
"""What the Hudi jobs share: run the plan that was named, or what is pending, or plan first."""

from collections.abc import Callable
from typing import Any

from lakehand.jobs.hudi import calls, entry, timelines
from lakehand.jobs.job import Job

Execute = Callable[[str], list[dict[str, Any]]]
Plan = Callable[[], None]


def run_plans(job: Job, kind: str, *, plan: Plan, execute: Execute) -> dict[str, Any]:
    """Execute one named plan; or all pending ones, and only if there are none make a plan and execute that."""
    location = job.boundary.real
    if job.parameters["mode"] == "execute":
        return executed(job, [calls.instant_of(job.parameters["instant"])], [], execute)
    job.phase("looking for pending plans")
    waiting = timelines.pending(job.session, location, kind)
    planned: list[str] = []
    if not waiting and job.parameters.get("may_plan"):
        job.check()
        job.phase("planning")
        plan()
        waiting = planned = timelines.pending(job.session, location, kind)
        job.note("planned", planned)
    return executed(job, waiting, planned, execute)


def executed(job: Job, instants: list[str], planned: list[str], execute: Execute) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for instant in instants:
        job.check()
        entry.check_again(job)
        job.phase(f"executing {instant}")
        rows += [calls.plain(row) for row in execute(instant)]
    return {"instants": instants, "planned": planned, "rows": rows}
