# SPDX-License-Identifier: Apache-2.0
"""Removes old versions and the files that only they need. Never a young, tagged, branched or the latest one."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.lance import outside
from lakehand.jobs.lance.datasets import Source, source_of
from lakehand.jobs.safety import BelowFloor, SafetyError

YOUNGEST = timedelta(days=1)  # whatever the parameters say
SKEW = timedelta(minutes=5)  # between the clock that made the cut-off and the driver's
LISTED = 1_000
EXAMINED = 1_000_000  # candidate files that are compared with the live ones


class LiveFileInDanger(SafetyError):
    """A file that a kept version reads is among those that would go."""


def run(job: Job) -> dict[str, Any]:
    limits = limits_of(job.parameters, datetime.now(timezone.utc))
    source = source_of(job)
    outside.check_listing(job.boundary, source.open)
    dataset = source.open()
    outside.check_identity(job, dataset)
    job.phase("looking for what may go")
    found = dataset.explain_cleanup_old_versions(include_files=True, max_files=EXAMINED, **limits)
    refuse_live_files(dataset, found)
    paths = outside.candidates(source.uri, found)
    job.boundary.refuse_outside(paths, doing="delete")
    if job.parameters.get("dry_run"):
        return would_delete(found, paths)
    job.check()
    job.phase(f"removing {found.stats.old_versions} versions")
    return clean(job, source, limits)


def clean(job: Job, source: Source, limits: dict[str, Any]) -> dict[str, Any]:
    """Lance deletes the files itself: what it must not meet is looked for once more right before."""
    outside.check_listing(job.boundary, source.open)
    dataset = source.open()
    outside.check_identity(job, dataset)
    foreign = outside.foreign_files(job.boundary, dataset)
    removed = dataset.cleanup_old_versions(**limits)
    left = dataset.explain_cleanup_old_versions(**limits).stats.old_versions
    return {"versions_removed": removed.old_versions, "files_removed": files(removed), "expired_after": left,
            "bytes_removed": removed.bytes_removed, "failed_deletes": removed.failed_deletes,
            **outside.left_outside(foreign, outside.foreign_files(job.boundary, dataset))}  # fmt: skip


def limits_of(parameters: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Lance's arguments. Files that no version names may be a writer's, and are left to Lance's own seven days."""
    older_than = now - datetime.fromtimestamp(int(parameters["cutoff_ms"]) / 1000, timezone.utc)
    retained = parameters["retain_versions"]
    if older_than < YOUNGEST - SKEW:
        raise BelowFloor(f"versions younger than {YOUNGEST} are not cleaned, and {older_than} was asked for")
    if not isinstance(retained, int) or isinstance(retained, bool) or retained < 1:
        raise BelowFloor(f"at least one version is retained, and {retained!r} was asked for")
    return {
        "older_than": max(older_than, YOUNGEST),
        "retain_versions": retained,
        "error_if_tagged_old_versions": False,  # tagged versions are kept, without a word
        "delete_unverified": False,
    }


def refuse_live_files(dataset: Any, found: Any) -> None:
    """Lance says what would go; this looks for itself whether a kept version reads any of it."""
    doomed = {name_of(file.path) for file in found.candidate_files if file.kind == "data"}
    for kept in kept_versions(dataset):
        live = {name_of(file.path) for fragment in kept.get_fragments() for file in fragment.metadata.files}
        if both := sorted(doomed & live):
            raise LiveFileInDanger(f"{len(both)} files of version {kept.version} would go, {both[0]} among them")


def kept_versions(dataset: Any) -> Iterator[Any]:
    yield dataset
    for name in dataset.tags.list():
        yield dataset.checkout_version(name)
    for name in dataset.branches.list():
        yield dataset.checkout_version((name, None))


def would_delete(found: Any, paths: list[str]) -> dict[str, Any]:
    return {
        "would_delete": sorted(paths)[:LISTED],
        "would_delete_files": files(found.stats) + found.stats.old_versions,
        "would_delete_bytes": found.stats.bytes_removed,
        "would_delete_versions": found.stats.old_versions,
    }


def files(stats: Any) -> int:
    return int(
        stats.data_files_removed + stats.transaction_files_removed + stats.index_files_removed
        + stats.deletion_files_removed
    )  # fmt: skip


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
