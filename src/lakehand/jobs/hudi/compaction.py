# SPDX-License-Identifier: Apache-2.0
"""Compacts a merge-on-read table: merges the log files that a plan names into new base files."""

from typing import Any

from lakehand.jobs.hudi import calls, checks
from lakehand.jobs.hudi.stray_keys import StrayKeyGuard
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    location = checks.enter(job)
    options = calls.use_options(job.session, job.parameters["options"])

    def plan(options: calls.Arguments) -> None:
        # Whoever plans here has decided to, whatever was written since the last plan.
        job.session.conf.set("hoodie.compact.inline.trigger.strategy", "NUM_COMMITS")
        job.session.conf.set("hoodie.compact.inline.max.delta.commits", "0")
        calls.call(job.session, "run_compaction", {"op": "schedule", "path": location, **options})

    def compact(instant: str, options: calls.Arguments) -> list[dict[str, Any]]:
        arguments = {"op": "execute", "path": location, "instants": instant, **options}
        return calls.call(job.session, "run_compaction", arguments)

    guard = StrayKeyGuard(job, location, plan=plan, compact=compact, options=options)
    done = calls.run_plans(job, "compaction", plan=lambda: plan(options), execute=guard.execute)
    return {**done, "instants": [*done["instants"], *guard.instants], **guard.report()}
