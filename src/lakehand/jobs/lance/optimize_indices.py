# SPDX-License-Identifier: Apache-2.0
"""Adds new rows to indices, and merges the parts of an index, one index after the other.

Lance has no way to spread this over executors: it runs in the driver's own process, so that the service bounds it.
"""

from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.lance import conditions, datasets
from lakehand.jobs.safety import UnsafeRequest


def run(job: Job) -> dict[str, Any]:
    source, done = datasets.source_of(job), {}
    job.boundary.check()
    conditions.check_conditions(job, source)
    for name, is_merge in chosen(job.parameters.get("indices")):
        job.check()
        dataset = datasets.open_admitted(job, source)  # as it is now: each index is a commit of its own
        parts = parts_to_merge(dataset, name, is_merge)
        if parts is None:
            continue
        datasets.refuse_foreign_files(job.boundary, dataset)
        job.phase(f"optimising index {name}")
        optimize(job, source, dataset, name, parts)
        done[name] = int(dataset.version)
        job.note("optimized", dict(done))
    return {"optimized": done}


def chosen(asked: Any) -> list[tuple[str, bool]]:
    if not isinstance(asked, list) or not all(isinstance(one, dict) and one.get("name") for one in asked):
        raise UnsafeRequest(f"the work does not say which indices to optimise: {asked!r}")
    return [(str(one["name"]), one.get("merge") is True) for one in asked]


def parts_to_merge(dataset: Any, name: str, is_merge: bool) -> int | None:
    """How many parts to merge, 0 for as Lance likes it; None: an earlier attempt or somebody else has done it.

    Lance commits a merge even when there is nothing to merge, so this is asked first.
    """
    found = [index for index in dataset.describe_indices() if index.name == name]
    if not found:
        return None
    parts = found[0].segments
    covered = {one for part in parts for one in part.fragment_ids or ()}
    if is_merge and len(parts) > 1:
        return len(parts)
    is_covered = all(fragment.fragment_id in covered for fragment in dataset.get_fragments())
    return None if is_covered else 0


def optimize(job: Job, source: datasets.Source, dataset: Any, name: str, parts: int) -> None:
    """Lance reads, writes and commits in one call: this is the last moment for checks."""
    job.check()
    datasets.check_commit(job, source)
    merge = {"num_indices_to_merge": parts} if parts else {}
    dataset.optimize.optimize_indices(index_names=[name], **merge)
