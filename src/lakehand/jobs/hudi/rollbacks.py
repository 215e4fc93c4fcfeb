# SPDX-License-Identifier: Apache-2.0
"""A clustering plan that conflicts with a writer: rolled back under the table's lock, unless it is already gone."""

import time
from collections.abc import Container
from typing import Any

from lakehand.jobs.causes import causes_of
from lakehand.jobs.hudi import checks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.spark import list_folder

CONFLICTS = ("HoodieWriteConflictException", "ConcurrentModificationException")
TIMEOUT, POLL = 60.0, 0.2  # seconds to wait for writes that are under way, and between two checks
FRESH = 120.0  # seconds: an older heartbeat is a dead writer's


class WriterBusy(Exception):
    """A write is under way: it may still read what would be taken away from under it."""


class NotRolledBack(Exception):
    """The plan cannot succeed any more, and is still pending."""


def loss(job: Job, location: str, instant: str, error: Exception) -> str | None:
    """Why a failed plan can never succeed: it is gone, or lost to a writer and rolled back here. None: it still may."""
    job.check()
    if not timelines.holds(job.session, location, instant):
        return f"clustering plan {instant} was rolled back by someone else while it ran, most likely a writer"
    is_conflict = any(cause.name.endswith(CONFLICTS) for cause in causes_of(error))
    if not (is_conflict and job.parameters.get("may_roll_back")):
        return None
    if instant not in timelines.pending(job.session, location, "clustering"):
        return None  # completed after all
    job.log(f"{instant} met a writer: {causes_of(error)[-1].message}")
    roll_back(job, location, instant)
    return f"clustering plan {instant} met a writer in the same files; the writer won, and the plan was rolled back"


def roll_back(job: Job, location: str, instant: str) -> None:
    """Hudi takes the table's lock for it, and removes what the plan has written."""
    wait_for_writes(job, location)
    job.check()
    checks.check_again(job)
    job.phase(f"rolling back {instant}")
    with timelines.write_client(job.session, location) as client:
        client.rollback(instant)
    if instant in timelines.pending(job.session, location, "clustering"):
        raise NotRolledBack(f"clustering plan {instant} is still pending after its rollback")


def leave_to_runner(job: Job, location: str, kind: str, instant: str) -> None:
    """A plan that nobody had begun when we were admitted may have a runner by now: Hudi would roll back its work."""
    begun = {one.requestedTime() for one in timelines.pending_instants(job.session, location, kind) if one.isInflight()}
    if instant in begun and instant not in (job.parameters.get("begun") or ()):
        raise WriterBusy(f"somebody else has begun {kind} plan {instant}")


def wait_for_writes(
    job: Job,
    location: str,
    *,
    timeout: float | None = None,
    only: Container[str] | None = None,
    poll: float | None = None,
) -> None:
    """A writer reads the plans that it listed when it began: if one vanishes meanwhile, its statement fails."""
    deadline = time.monotonic() + (TIMEOUT if timeout is None else timeout)
    while writes := [one for one in writes_under_way(job, location) if only is None or one in only]:
        job.check()
        if time.monotonic() > deadline:
            raise WriterBusy(f"write {writes[0]} is under way: the work goes on when it is over")
        time.sleep(POLL if poll is None else poll)


def writes_under_way(job: Job, location: str) -> list[str]:
    """Those with a fresh heartbeat: under a common lock every writer has one."""
    oldest = time.time() - FRESH
    heartbeats = list_folder(job.session, f"{location}/.hoodie/.heartbeat")
    alive = {file.name for file in heartbeats if file.modified > oldest}
    return [instant for instant in timelines.pending_writes(job.session, location) if instant in alive] if alive else []


def roll_back_stale(job: Job, location: str, stale: dict[str, Any]) -> dict[str, str]:
    """Roll back the plans that writers had made stale before this attempt began. Returns the reasons, by instant."""
    waiting = timelines.pending(job.session, location, "clustering") if stale else []
    lost: dict[str, str] = {}
    for instant in sorted(set(stale) & set(waiting)):
        roll_back(job, location, instant)
        lost[instant] = f"{stale[instant]}; it was rolled back"
    return lost
