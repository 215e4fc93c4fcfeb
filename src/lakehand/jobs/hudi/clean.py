# SPDX-License-Identifier: Apache-2.0
"""Deletes the files of old versions. Hudi's procedure knows names only, so its client is called here."""

from typing import Any

from lakehand.jobs.hudi import calls, entry, timelines
from lakehand.jobs.hudi.clients import write_client
from lakehand.jobs.job import Job
from lakehand.jobs.safety import BelowFloor

LEAST_COMMITS = 2


def run(job: Job) -> dict[str, Any]:
    """Execute the pending clean plans; or, if there are none and we may, plan one and execute it."""
    location, parameters = entry.enter(job), job.parameters
    calls.refuse_foreign_lock(job)
    calls.use_options(job.session, {**parameters["options"], **retention(parameters)})
    job.phase("looking for pending plans")
    waiting = timelines.pending(job.session, location, "clean")
    may_plan = parameters["mode"] == "plan-and-execute" and bool(parameters.get("may_plan"))
    if not waiting and not may_plan:
        return {"instants": [], "planned": [], "rows": []}
    job.check()
    job.phase(f"executing {', '.join(waiting)}" if waiting else "planning and executing")
    with write_client(job.session, location) as client:
        if not waiting:
            schedule(job, client)
        entry.check_again(job)
        rows = outcome(clean(client, plan=False))
    planned = [] if waiting else [row["start_clean_time"] for row in rows]
    return {"instants": waiting or planned, "planned": planned, "rows": rows}


def retention(parameters: dict[str, Any]) -> dict[str, str]:
    """What a plan keeps, under the old and the new names of the options."""
    kept = str(least_commits(parameters["retain_commits"]))
    return {
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": kept,
        "hoodie.cleaner.commits.retained": kept,
        "hoodie.clean.trigger.strategy": "NUM_COMMITS",
        "hoodie.clean.trigger.max.commits": "1",
        "hoodie.clean.max.commits": "1",
    }


def least_commits(asked: Any) -> int:
    """The floor once more, wherever the number comes from."""
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < LEAST_COMMITS:
        raise BelowFloor(f"a clean that retains {asked!r} commits is refused: {LEAST_COMMITS} are the least")
    return asked


def schedule(job: Job, client: Any) -> None:
    """First the plan alone, so that it can be read before it is believed."""
    jvm: Any = job.session.sparkContext._jvm
    kind = jvm.org.apache.hudi.common.model.TableServiceType.CLEAN
    client.scheduleTableService(jvm.org.apache.hudi.common.util.Option.empty(), kind)


def clean(client: Any, *, plan: bool) -> Any:
    """Hudi 1.0 wants an instant and a word about locking besides; its ``clean(boolean)`` means something else."""
    is_old = any(m.getName() == "clean" and m.getParameterCount() == 3 for m in client.getClass().getMethods())
    return client.clean(client.createNewInstantTime(), plan, False) if is_old else client.clean(plan)


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
