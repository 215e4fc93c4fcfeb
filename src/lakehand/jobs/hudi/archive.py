# SPDX-License-Identifier: Apache-2.0
"""Archives old instants of the timeline. Hudi's procedure takes neither a lock nor the table's options."""

from typing import Any

from lakehand.jobs.hudi import calls, checks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.safety import whole_number, would_delete
from lakehand.jobs.spark import java_array, jvm, list_folder

LEAST_COMMITS = 4  # that stay on the active timeline
LEAST_RETAINED = 2


class NotArchived(Exception):
    """Hudi said that it archived, and the instants are still on the active timeline."""


def run(job: Job) -> dict[str, Any]:
    location, parameters = checks.enter(job), job.parameters
    calls.use_options(job.session, {**parameters["options"], **retention(parameters)})
    job.phase("waiting for the table's lock")
    with timelines.locked(job.session, location), timelines.unlocked_client(job.session, location) as client:
        job.phase("finding what can be archived")
        archiver = archiver_of(job, client)
        instants = archivable(job, archiver)
        if parameters.get("dry_run"):
            return {**would_delete(timeline_files(job, location, instants)), "would_archive": len(instants)}
        if not instants:
            return {"archived": 0}
        job.check()
        checks.check_under_lock(job)
        job.phase(f"archiving {len(instants)} instants, {instants[0]} to {instants[-1]}")
        move(archiver, client)
    if timelines.holds(job.session, location, instants[0]):
        raise NotArchived(f"{instants[0]} is still on the active timeline after the archive")
    return {"archived": len(instants), "first": instants[0], "last": instants[-1]}


def retention(parameters: dict[str, Any]) -> dict[str, str]:
    """What stays on the active timeline: enough for cleans, for the next compaction, and each savepoint."""
    least = whole_number(parameters["min_commits"], "min_commits", LEAST_COMMITS)
    retained = str(whole_number(parameters["retain_commits"], "retain_commits", LEAST_RETAINED))
    return {
        "hoodie.keep.min.commits": str(least),
        "hoodie.keep.max.commits": str(whole_number(parameters["max_commits"], "max_commits", least + 1)),
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": retained,
        "hoodie.cleaner.commits.retained": retained,
        "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
        "hoodie.compact.inline.max.delta.commits": str(whole_number(parameters["delta_commits"], "delta_commits")),
        "hoodie.archive.beyond.savepoint": "false",
    }


def archiver_of(job: Job, client: Any) -> Any:
    hudi = jvm(job.session).org.apache.hudi
    table = hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext())
    layout = table.getMetaClient().getTimelineLayoutVersion()
    return hudi.client.timeline.TimelineArchivers.getInstance(layout, client.getConfig(), table)


def archivable(job: Job, archiver: Any) -> list[str]:
    """The instants that Hudi would archive now, oldest first. Only a private method of its archiver knows."""
    java = jvm(job.session).java.lang
    method = archiver.getClass().getDeclaredMethod("getInstantsToArchive", java_array(job.session, java.Class, []))
    method.setAccessible(True)
    found = method.invoke(archiver, java_array(job.session, java.Object, []))
    return sorted({instant_of(one) for one in found.toArray()})


def instant_of(found: Any) -> str:
    """Layout 2 groups the steps of an instant; layout 1 lists each of them."""
    is_group = found.getClass().getSimpleName().startswith("ActiveAction")
    return str(found.getInstantTime() if is_group else found.requestedTime())


def move(archiver: Any, client: Any) -> None:
    """Hudi writes the instants to the archive, and then deletes their files from the timeline. The lock is held."""
    archiver.archiveIfRequired(client.getEngineContext(), False)


def timeline_files(job: Job, location: str, instants: list[str]) -> list[str]:
    found = list_folder(job.session, timelines.folder(job.session, location))
    names = (file.name for file in found if not file.is_folder)
    return sorted(name for name in names if name.replace("_", ".").partition(".")[0] in set(instants))
