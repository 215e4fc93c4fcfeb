# SPDX-License-Identifier: Apache-2.0
"""Deletes files that no version within the retention needs: lists them first, and checks the list before it acts."""

import time
from collections.abc import Sequence
from typing import Any

from lakehand.jobs.delta import listing, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import BelowFloor, whole_number, would_delete

FLOOR_HOURS = 168
MODES = ("lite", "full")


def run(job: Job) -> dict[str, Any]:
    statement = statement_of(job)
    # Delta's own check stays on, whatever the cluster's settings say, and the log records what was done.
    tables.configure(job, retentionDurationCheck__enabled="true", vacuum__logging__enabled="true")
    job.phase("checking the boundary")
    check_table(job)
    job.phase("reading the history")
    if any(is_end(one) for one in tables.own_commits(job)):
        return {"already_done": True}
    job.phase("listing what would go")
    found = [str(row["path"]) for row in job.session.sql(f"{statement} DRY RUN").collect()]
    job.note("would_delete_files", len(found))
    check_list(job, found)
    live = listing.live_files(job)
    listing.refuse_live(found, live)
    left = {"left_outside": job.parameters.get("left_outside") or 0}
    if job.parameters.get("dry_run") is not False:
        return {**would_delete(sorted(found)), **left}
    if job.parameters["mode"] == "full":
        listing.refuse_unexpected(job, found, live)
    job.check()
    job.phase(f"deleting {len(found)} files")
    check_table_again(job)
    check_list(job, found)
    job.session.sql(statement).collect()
    return {"already_done": False, "listed_files": len(found), **left}


def check_table(job: Job) -> None:
    """The table is the one that was admitted, with no link and no other table below it. Lists it for a full vacuum."""
    if not is_listed_by_us(job):
        check_table_again(job)
        return
    job.boundary.check_path()
    entries = list(listing.entries_below(job.boundary.real))
    job.boundary.refuse_tables_below("delta", (one.path for one in entries if not one.is_folder))
    columns = tables.partition_columns(tables.newest_version(job))
    fresh = (time.time() - FLOOR_HOURS * 3600) * 1000  # a writer may be about to fill a folder that it has just made
    listing.provide(job, (one for one in entries if not (one.is_folder and one.modified > fresh)), columns)


def check_table_again(job: Job) -> None:
    job.boundary.check_path()
    if lists_folders(job):
        job.boundary.refuse_tables_below("delta", job.boundary.files(job.session))
    tables.newest_version(job)


def check_list(job: Job, found: Sequence[str]) -> None:
    """A lite vacuum deletes what the log names, also by ``..`` outside of the table."""
    job.boundary.refuse_outside(found, doing="delete")
    if not lists_folders(job):
        listing.refuse_tables_around(job, found)


def lists_folders(job: Job) -> bool:
    """On local disks links must be searched for in any case, and one walk finds links and tables."""
    return job.boundary.is_local or job.parameters["mode"] == "full"


def is_listed_by_us(job: Job) -> bool:
    return job.boundary.is_local and job.parameters["mode"] == "full"


def statement_of(job: Job) -> str:
    hours, mode = whole_number(job.parameters["retain_hours"], "retain_hours"), job.parameters["mode"]
    if hours < FLOOR_HOURS:
        raise BelowFloor(f"a vacuum that keeps {hours} h is refused: {FLOOR_HOURS} h are the least")
    if mode not in MODES:
        raise ValueError(f"{mode!r} is no way to vacuum: {' or '.join(MODES)}")
    inventory = f" {listing.CLAUSE}" if is_listed_by_us(job) else ""
    return f"VACUUM {tables.table_name(job)} {mode.upper()}{inventory} RETAIN {hours} HOURS"


def is_end(commit: dict[str, Any]) -> bool:
    status = (commit.get("operationParameters") or {}).get("status")
    return commit["operation"] == "VACUUM END" and status == "COMPLETED"
