# SPDX-License-Identifier: Apache-2.0
"""Compacts a merge-on-read table: merges the log files that a plan names into new base files."""

from typing import Any

from lakehand.jobs.hudi import calls, checks
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    location = checks.enter(job)
    options = calls.use_options(job.session, job.parameters["options"])

    def plan() -> None:
        # The service has decided to plan: one delta commit is enough.
        job.session.conf.set("hoodie.compact.inline.trigger.strategy", "NUM_COMMITS")
        job.session.conf.set("hoodie.compact.inline.max.delta.commits", "1")
        calls.call(job.session, "run_compaction", {"op": "schedule", "path": location, **options})

    def execute(instant: str) -> list[dict[str, Any]]:
        arguments = {"op": "execute", "path": location, "instants": instant, **options}
        return calls.call(job.session, "run_compaction", arguments)

    return calls.run_plans(job, "compaction", plan=plan, execute=execute)
