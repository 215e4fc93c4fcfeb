# SPDX-License-Identifier: Apache-2.0
"""Clusters a table: rewrites the file groups that a plan names into larger or better sorted ones."""

from typing import Any

from lakehand.jobs.hudi import calls, checks, rollbacks
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    location, parameters = checks.enter(job), job.parameters
    options = calls.use_options(job.session, parameters["options"])
    lost = rollbacks.roll_back_stale(job, location, parameters.get("stale") or {})

    def plan() -> None:
        for key in ("hoodie.clustering.inline.max.commits", "hoodie.clustering.async.max.commits"):
            job.session.conf.set(key, "1")
        if not order(parameters):
            # Rewriting a single file group without sorting it changes nothing, and could be repeated forever.
            job.session.conf.set("hoodie.clustering.plan.strategy.single.group.clustering.enabled", "false")
        calls.call(job.session, "run_clustering", {"op": "schedule", "path": location, **order(parameters), **options})

    def execute(instant: str) -> list[dict[str, Any]]:
        if instant in lost:
            return []
        arguments = {"op": "execute", "path": location, "instants": instant, "show_involved_partition": True, **options}
        try:
            return calls.call(job.session, "run_clustering", arguments)
        except Exception as error:
            why = rollbacks.loss(job, location, instant, error)
            if why is None:
                raise
            lost[instant] = why
            return []

    done = calls.run_plans(job, "clustering", plan=plan, execute=execute)
    return {**done, "instants": [each for each in done["instants"] if each not in lost], "lost": lost}


def order(parameters: dict[str, Any]) -> dict[str, calls.Value]:
    if not parameters.get("order_columns"):
        return {}
    return {"order": parameters["order_columns"], "order_strategy": parameters.get("order_strategy") or "linear"}
