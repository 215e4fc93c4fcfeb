# SPDX-License-Identifier: Apache-2.0
"""Deletes the files of old versions. Hudi's procedure takes names only, so its client is called here."""

from typing import Any

from lakehand.jobs.hudi import calls, checks, rollbacks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.safety import whole_number
from lakehand.jobs.spark import jvm

LEAST_COMMITS = 2


def run(job: Job) -> dict[str, Any]:
    """Execute the pending clean plans; or, if there are none and we may, plan one and execute it."""
    location, parameters = checks.enter(job), job.parameters
    calls.use_options(job.session, {**parameters["options"], **retention(parameters)})
    job.phase("finding pending plans")
    waiting = timelines.pending(job.session, location, "clean")
    may_plan = parameters["mode"] == "plan-and-execute" and bool(parameters.get("may_plan"))
    if not waiting and not may_plan:
        return {"instants": [], "planned": [], "rows": []}
    job.check()
    job.phase(f"executing {', '.join(waiting)}" if waiting else "planning and executing")
    with timelines.write_client(job.session, location) as client:
        if not waiting:
            schedule(job, client)
        checks.check_again(job)
        for instant in waiting:
            rollbacks.leave_to_runner(job, location, "clean", instant)
        rows = outcome(clean(client))
    planned = [] if waiting else [row["start_clean_time"] for row in rows]
    return {"instants": waiting or planned, "planned": planned, "rows": rows}


def retention(parameters: dict[str, Any]) -> dict[str, str]:
    """What a plan keeps, under the old and the new names of the options."""
    commits = str(whole_number(parameters["retain_commits"], "retain_commits", LEAST_COMMITS))
    return {
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": commits,
        "hoodie.cleaner.commits.retained": commits,
        "hoodie.clean.trigger.strategy": "NUM_COMMITS",
        "hoodie.clean.trigger.max.commits": "1",
        "hoodie.clean.max.commits": "1",
    }


def schedule(job: Job, client: Any) -> None:
    """First the plan alone, so that it can be checked before it is executed."""
    hudi = jvm(job.session).org.apache.hudi.common
    client.scheduleTableService(hudi.util.Option.empty(), hudi.model.TableServiceType.CLEAN)


def clean(client: Any) -> Any:
    """Without planning. Hudi 1.0 also takes an instant and a flag about locking; its ``clean(boolean)`` differs."""
    is_old = any(m.getName() == "clean" and m.getParameterCount() == 3 for m in client.getClass().getMethods())
    return client.clean(client.createNewInstantTime(), False, False) if is_old else client.clean(False)


def outcome(metadata: Any) -> list[dict[str, Any]]:
    if metadata is None:
        return []
    return [
        {
            "start_clean_time": metadata.getStartCleanTime(),
            "total_files_deleted": metadata.getTotalFilesDeleted(),
            "earliest_commit_to_retain": metadata.getEarliestCommitToRetain(),
        }
    ]
