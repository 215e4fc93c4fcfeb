# SPDX-License-Identifier: Apache-2.0
"""Builds indexes of the metadata table that were asked for. Hudi has no procedure for it, so its client is called."""

from collections.abc import Sequence
from typing import Any

from lakehand.jobs.hudi import calls, checks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import jvm

KIND = "indexing"
TYPES = {"column_stats": "COLUMN_STATS", "bloom_filters": "BLOOM_FILTERS", "record_index": "RECORD_INDEX"}


def run(job: Job) -> dict[str, Any]:
    location, names = checks.enter(job), indexes_in(job)
    calls.use_options(job.session, job.parameters["options"])
    lost = clear_begun(job, location)

    def plan() -> None:
        with timelines.write_client(job.session, location) as client:
            client.scheduleIndexing(types(job, names), java_list(job, ()))

    def execute(instant: str) -> list[dict[str, Any]]:
        if instant in timelines.pending(job.session, location, KIND) and not build(job, location, instant):
            lost[instant] = f"indexing plan {instant} builds what the table has by now; it was removed"
        return []

    if lost:  # what was half built is built anew, from a plan of its own
        job.parameters |= {"mode": "plan-and-execute", "may_plan": True}
    done = calls.run_plans(job, KIND, plan=plan, execute=execute)
    return {**done, "instants": [each for each in done["instants"] if each not in lost], "lost": lost}


def build(job: Job, location: str, instant: str) -> bool:
    """False: a writer that has the indexes on came first, and Hudi would refuse the plan forever."""
    config = timelines.meta_client(job.session, location).getTableConfig()
    if set(indexes_in(job)) <= set(config.getMetadataPartitions()):
        with timelines.locked(job.session, location):
            timelines.remove(job.session, location, KIND, instant)
        return False
    with timelines.write_client(job.session, location) as client:
        client.index(instant)
    return True


def indexes_in(job: Job) -> list[str]:
    names = job.parameters.get("indexes")
    if not isinstance(names, list) or any(name not in TYPES for name in names):
        raise UnsafeRequest(f"{names!r} are not indexes that can be built: {', '.join(TYPES)}")
    return names


def clear_begun(job: Job, location: str) -> dict[str, str]:
    """Drop what an earlier attempt has left half built: Hudi executes no plan twice, and keeps a dead one forever."""
    begun = [each for each in timelines.pending_instants(job.session, location, KIND) if not each.isRequested()]
    lost: dict[str, str] = {}
    for each in begun:
        instant = str(each.requestedTime())
        job.check()
        checks.check_again(job)
        job.phase(f"clearing {instant}")
        with timelines.write_client(job.session, location) as client:
            client.dropIndex(java_list(job, indexes_in(job)))
        with timelines.locked(job.session, location):
            timelines.remove(job.session, location, KIND, instant)
        lost[instant] = f"indexing plan {instant} was left in the middle by an earlier attempt; it was built anew"
    return lost


def types(job: Job, names: Sequence[str]) -> Any:
    known = jvm(job.session).org.apache.hudi.metadata.MetadataPartitionType
    return java_list(job, [getattr(known, TYPES[name]) for name in names])


def java_list(job: Job, items: Sequence[Any]) -> Any:
    found = jvm(job.session).java.util.ArrayList()
    for item in items:
        found.add(item)
    return found
