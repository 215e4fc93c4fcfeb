# SPDX-License-Identifier: Apache-2.0
"""Deletes files that no version within the retention needs: lists them first, and looks at the list before it acts."""

from typing import Any

from lakehand.jobs.delta import history, orphans, statements
from lakehand.jobs.delta.rewrites import DELTA
from lakehand.jobs.job import Job

FLOOR_HOURS = 168
MODES = ("lite", "full")
SHOWN = 1000


class BelowTheFloor(Exception):
    """Files must be kept for at least seven days, whoever asks."""


def run(job: Job) -> dict[str, Any]:
    statement = statement_of(job)
    settle(job)
    job.phase("looking at the history")
    if any(is_end(one) for one in history.own_commits(job)):
        return {"already_done": True}
    job.phase("listing what would go")
    found = [str(row["path"]) for row in job.session.sql(f"{statement} DRY RUN").collect()]
    job.note("would_delete_files", len(found))
    live = orphans.live_files(job)
    orphans.refuse_live(found, live)
    if job.parameters.get("dry_run") is not False:
        return {"would_delete": sorted(found)[:SHOWN], "would_delete_files": len(found)}
    if job.parameters["mode"] == "full" and job.parameters.get("confirm") is not True:
        orphans.refuse_implausible(job, found, live)
    job.check()
    job.phase(f"deleting {len(found)} files")
    job.session.sql(statement).collect()
    return {"already_done": False, "listed_files": len(found)}


def statement_of(job: Job) -> str:
    hours = statements.whole(job.parameters["retain_hours"], "retain_hours")
    if hours < FLOOR_HOURS:
        raise BelowTheFloor(f"a vacuum that keeps {hours} h is refused: {FLOOR_HOURS} h are the least")
    mode = job.parameters["mode"]
    if mode not in MODES:
        raise ValueError(f"{mode!r} is no way to vacuum: {' or '.join(MODES)}")
    return f"VACUUM {statements.table_at(job.parameters['location'])} {mode.upper()} RETAIN {hours} HOURS"


def settle(job: Job) -> None:
    """Delta's own check stays on, whatever the cluster's settings say, and the log tells what was done."""
    job.session.conf.set(DELTA + "commitInfo.userMetadata", statements.stamp_of(job.parameters["stamp"]))
    job.session.conf.set(DELTA + "retentionDurationCheck.enabled", "true")
    job.session.conf.set(DELTA + "vacuum.logging.enabled", "true")


def is_end(commit: dict[str, Any]) -> bool:
    status = (commit.get("operationParameters") or {}).get("status")
    return commit["operation"] == "VACUUM END" and status == "COMPLETED"
