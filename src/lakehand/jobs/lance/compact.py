# SPDX-License-Identifier: Apache-2.0
"""Merges small fragments and drops deleted rows, distributed over the executors."""

from collections.abc import Sequence
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.lance import commits, outside
from lakehand.jobs.lance.datasets import source_of
from lakehand.jobs.lance.rewriting import options_for, rewritten, tasks_within


def run(job: Job) -> dict[str, Any]:
    from lance.optimize import Compaction

    asked, source = job.parameters, source_of(job)
    job.boundary.check()
    job.phase("planning")
    dataset = source.open()
    outside.check_identity(job, dataset)
    tag = str(asked["operation_tag"])
    if (version := commits.earlier(dataset, int(asked["before"]), tag)) is not None:
        return {"already_done": True, "version": version, "read_version": dataset.version}
    options: Any = options_for(dataset, int(asked["target_rows"]), float(asked["deleted_share"]))
    tasks = tasks_within(Compaction.plan(dataset, options).tasks, int(asked["max_bytes"]))
    if not tasks:
        return {"tasks": 0, "read_version": dataset.version}
    outside.refuse_foreign_files(job.boundary, dataset)
    job.check()
    job.phase(f"rewriting {sum(len(task.fragments) for task in tasks)} fragments in {len(tasks)} tasks")
    results = rewritten(job.session.sparkContext, source, tasks)
    job.check()
    job.phase("committing")
    outside.check_commit(job, source.open)
    outcome = commits.commit(dataset, results, options=options, tag=tag)
    job.note("version", outcome.version)
    return {"read_version": tasks[0].read_version, "tasks": len(tasks), **told(outcome)}


def told(outcome: commits.RewriteOutcome) -> dict[str, Any]:
    return {"version": outcome.version, "committed_tasks": len(outcome.results), **counts(outcome.results)}


def counts(results: Sequence[Any]) -> dict[str, int]:
    names = ("fragments_removed", "fragments_added", "files_removed", "files_added")
    return {name: sum(int(getattr(result.metrics, name)) for result in results) for name in names}
