# SPDX-License-Identifier: Apache-2.0
"""Rolls back writes whose writers are dead, under the table's lock: a writer that came back is left alone."""

import time
from typing import Any

from lakehand.jobs.hudi import calls, checks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.safety import whole_number, would_delete
from lakehand.jobs.spark import jvm, list_folder

LEAST_SECONDS = 120  # without a heartbeat


class WriteStillPending(Exception):
    """Hudi said that it rolled a write back, and the write is still pending."""


def run(job: Job) -> dict[str, Any]:
    location, parameters = checks.enter(job), job.parameters
    calls.use_options(job.session, parameters["options"])
    wanted = [calls.instant_of(instant) for instant in parameters["instants"]]
    if parameters.get("dry_run"):
        dead = [instant for instant in wanted if is_dead(job, location, instant)]
        return {**would_delete(files_of(job, dead)), "would_roll_back": dead}
    done: dict[str, list[str]] = {"rolled_back": [], "alive": [], "gone": []}
    for instant in sorted(wanted, reverse=True):  # as Hudi does, the newest first
        job.check()
        done[roll_back(job, location, instant)].append(instant)
    return done


def roll_back(job: Job, location: str, instant: str) -> str:
    """What became of the write. While the lock is held, its writer cannot commit."""
    checks.check_again(job)
    with timelines.locked(job.session, location), timelines.unlocked_client(job.session, location) as client:
        if instant not in timelines.pending_writes(job.session, location) and not rollbacks_of(job, location, instant):
            return "gone"
        if not is_dead(job, location, instant):
            return "alive"
        checks.check_under_lock(job)
        job.phase(f"rolling back {instant}")
        client.rollback(instant)
        timelines.forget_heartbeat(job.session, location, instant)
    if instant in timelines.pending_writes(job.session, location):
        raise WriteStillPending(f"write {instant} is still pending after its rollback")
    return "rolled_back"


def is_dead(job: Job, location: str, instant: str) -> bool:
    """No step of it on the timeline is young, and no heartbeat; the same for a rollback of it that was begun."""
    seconds = whole_number(job.parameters["dead_after_seconds"], "dead_after_seconds", LEAST_SECONDS)
    ours, oldest = {instant, *rollbacks_of(job, location, instant)}, time.time() - seconds
    timeline = timelines.folder(job.session, location)
    signs = [*list_folder(job.session, timeline), *list_folder(job.session, f"{location}/.hoodie/.heartbeat")]
    return all(file.modified < oldest for file in signs if file.name.partition(".")[0] in ours)


def rollbacks_of(job: Job, location: str, instant: str) -> list[str]:
    """Rollbacks of a write that were begun and not completed."""
    client, hudi = timelines.meta_client(job.session, location), jvm(job.session).org.apache.hudi
    plan_of = hudi.table.action.rollback.RollbackUtils.getRollbackPlan
    found = list(client.getActiveTimeline().filterPendingRollbackTimeline().getInstants())
    named = ((one.requestedTime(), plan_of(client, one).getInstantToRollback().getCommitTime()) for one in found)
    return [rollback for rollback, target in named if target == instant]


def files_of(job: Job, instants: list[str]) -> list[str]:
    """Data files and log files that bear the instant of a write. In layout 1 logs bear another, and are kept."""
    ends = tuple(f"_{instant}" for instant in instants)
    files = job.boundary.files(job.session)
    names = (path for path in files if not path.startswith(".hoodie/") and not path.endswith(".crc"))
    return sorted(path for path in names if path.rpartition("/")[2].lstrip(".").partition(".")[0].endswith(ends))
