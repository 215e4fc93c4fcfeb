# SPDX-License-Identifier: Apache-2.0
"""Merges small fragments and drops deleted rows, distributed over the executors."""

from collections.abc import Sequence
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.lance import commits, conditions, datasets
from lakehand.jobs.safety import operation_tag


def run(job: Job) -> dict[str, Any]:
    from lance.optimize import Compaction

    asked, source, tag = job.parameters, datasets.source_of(job), operation_tag(job.parameters)
    job.boundary.check()
    job.phase("planning")
    dataset = datasets.open_admitted(job, source)
    if (version := commits.earlier(dataset, int(asked["before"]), tag)) is not None:
        return {"already_done": True, "version": version, "read_version": dataset.version}
    options: Any = commits.options_for(dataset, int(asked["target_rows"]), float(asked["deleted_share"]))
    tasks = commits.tasks_within(Compaction.plan(dataset, options).tasks, int(asked["max_bytes"]))
    if not tasks:
        return {"tasks": 0, "read_version": dataset.version}
    datasets.refuse_foreign_files(job.boundary, dataset)
    conditions.check_conditions(job, source)
    job.check()
    job.phase(f"rewriting {sum(len(task.fragments) for task in tasks)} fragments in {len(tasks)} tasks")
    results = commits.rewrite(job.session.sparkContext, source, tasks)
    job.check()
    job.phase("committing")
    datasets.check_commit(job, source)
    version, done = commits.commit(dataset, results, options=options, tag=tag)
    job.note("version", version)
    numbers = {"tasks": len(tasks), "committed_tasks": len(done), **counts(done)}
    return {"read_version": tasks[0].read_version, "version": version, **numbers}


def counts(results: Sequence[Any]) -> dict[str, int]:
    names = ("fragments_removed", "fragments_added", "files_removed", "files_added")
    return {name: sum(int(getattr(result.metrics, name)) for result in results) for name in names}
