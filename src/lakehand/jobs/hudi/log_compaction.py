# SPDX-License-Identifier: Apache-2.0
"""Merges the small log blocks that a plan names. Hudi has no procedure for it, so its client is called here."""

from typing import Any

from py4j.protocol import Py4JJavaError

from lakehand.jobs.hudi import calls, checks, rollbacks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.safety import whole_number
from lakehand.jobs.spark import jvm

KIND = "logcompaction"
LEAST_BLOCKS = 2
COMMIT_TIMEOUT = 600.0  # seconds to wait for writes that are under way


def run(job: Job) -> dict[str, Any]:
    location = checks.enter(job)
    calls.use_options(job.session, {**job.parameters["options"], **merging(job.parameters)})
    lost = remove_stale(job, location)

    def plan() -> None:
        with timelines.write_client(job.session, location) as client:
            client.scheduleLogCompaction(jvm(job.session).org.apache.hudi.common.util.Option.empty())

    def execute(instant: str) -> list[dict[str, Any]]:
        if instant not in lost and (why := merge(job, location, instant)):
            lost[instant] = why
        return []

    done = calls.run_plans(job, KIND, plan=plan, execute=execute)
    return {**done, "instants": [each for each in done["instants"] if each not in lost], "lost": lost}


def merging(parameters: dict[str, Any]) -> dict[str, str]:
    blocks = whole_number(parameters["min_blocks"], "min_blocks", LEAST_BLOCKS)
    return {
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.inline": "false",
        "hoodie.log.compaction.blocks.threshold": str(blocks),
    }


def merge(job: Job, location: str, instant: str) -> str | None:
    """Execute and commit. Why the plan is lost: one that an attempt left inflight is rolled back by Hudi, and gone."""
    if instant not in timelines.pending(job.session, location, KIND):
        return None  # an earlier attempt may have completed it
    try:
        with timelines.write_client(job.session, location) as client:
            written = client.logCompact(instant, False)
            commit(job, location, client, instant, written)
    except Py4JJavaError:
        if timelines.holds(job.session, location, instant):
            raise
        return f"log-compaction plan {instant} was left in the middle by an earlier attempt, and was rolled back"
    return None


def commit(job: Job, location: str, client: Any, instant: str, written: Any) -> None:
    """A writer that is in the middle of an update of the same files would fail at its commit: it goes first."""
    job.phase(f"waiting to commit {instant}")
    rollbacks.wait_for_writes(job, location, timeout=COMMIT_TIMEOUT)
    job.check()
    client.commitLogCompaction(instant, written, jvm(job.session).org.apache.hudi.common.util.Option.empty())
    job.note("committed", instant)


def remove_stale(job: Job, location: str) -> dict[str, str]:
    """Take stale plans off the timeline, which are older than a compaction: Hudi never runs them, and keeps them.

    Only those that nobody has begun: what others have written would have to be rolled back.
    """
    stale: dict[str, str] = job.parameters.get("stale") or {}
    waiting = timelines.pending_instants(job.session, location, KIND) if stale else []
    lost: dict[str, str] = {}
    for instant in sorted(str(one.requestedTime()) for one in waiting if one.isRequested()):
        if instant in stale:
            job.check()
            checks.check_again(job)
            job.phase(f"removing {instant}")
            with timelines.locked(job.session, location):
                timelines.remove(job.session, location, KIND, instant)
            lost[instant] = f"{stale[instant]}; it was removed"
    return lost
