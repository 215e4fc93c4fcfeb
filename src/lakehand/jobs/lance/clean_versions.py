# SPDX-License-Identifier: Apache-2.0
"""Removes old versions and the files that only they need. Never a young, tagged, branched or the latest one."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.lance import datasets
from lakehand.jobs.paths import canonical
from lakehand.jobs.safety import BelowFloor, SafetyError, left_outside, whole_number, would_delete

YOUNGEST = timedelta(days=1)  # whatever the parameters say
SKEW = timedelta(minutes=5)  # between the clock that made the cut-off and the driver's
EXAMINED = 1_000_000  # candidate files that are compared with the live ones
SHOWN = 3
WHY = "other base paths of the table lie outside of it: nothing is deleted there"


class LiveFileInDanger(SafetyError):
    """A file that a kept version reads is among those that would go."""


def run(job: Job) -> dict[str, Any]:
    limits = limits_of(job.parameters, datetime.now(timezone.utc))
    source = datasets.source_of(job)
    dataset = datasets.open_for_listing(job, source)
    job.phase("finding what may go")
    found = dataset.explain_cleanup_old_versions(include_files=True, max_files=EXAMINED, **limits)
    refuse_live_files(dataset, found)
    paths = candidate_paths(source.uri, found)
    job.boundary.refuse_outside(paths, doing="delete")
    versions = found.stats.old_versions
    if job.parameters.get("dry_run"):
        report = would_delete(sorted(paths), count_files(found.stats) + versions, found.stats.bytes_removed)
        return {**report, "would_delete_versions": versions}
    job.check()
    job.phase(f"removing {versions} versions")
    return clean(job, source, limits)


def clean(job: Job, source: datasets.Source, limits: dict[str, Any]) -> dict[str, Any]:
    """Lance deletes the files itself, so the table is checked once more right before."""
    dataset = datasets.open_for_listing(job, source)
    foreign = datasets.foreign_files(job.boundary, dataset)
    removed = dataset.cleanup_old_versions(**limits)
    expired = dataset.explain_cleanup_old_versions(**limits).stats.old_versions
    left = sorted(foreign - datasets.foreign_files(job.boundary, dataset))
    return {"versions_removed": removed.old_versions, "files_removed": count_files(removed), "expired_after": expired,
            "bytes_removed": removed.bytes_removed, "failed_deletes": removed.failed_deletes,
            **left_outside(len(left), left[:SHOWN], WHY)}  # fmt: skip


def limits_of(parameters: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Lance's arguments. Files that no version names may be a writer's, and are left to Lance's own seven days."""
    older_than = now - datetime.fromtimestamp(int(parameters["cutoff_ms"]) / 1000, timezone.utc)
    if older_than < YOUNGEST - SKEW:
        raise BelowFloor(f"versions younger than {YOUNGEST} are not cleaned, and {older_than} was asked for")
    return {
        "older_than": max(older_than, YOUNGEST),
        "retain_versions": whole_number(parameters["retain_versions"], "retain_versions"),
        "error_if_tagged_old_versions": False,  # tagged versions are kept, without an error
        "delete_unverified": False,
    }


def refuse_live_files(dataset: Any, found: Any) -> None:
    """Lance says what would go; this checks by itself whether a kept version reads any of it."""
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


def candidate_paths(uri: str, found: Any) -> list[str]:
    """Whole paths of the files that a clean-up would delete; Lance names them without the store."""
    location = canonical(uri)
    root = "/" if location.startswith("/") else "/".join(location.split("/")[:3]) + "/"
    return [root + file.path.lstrip("/") for file in found.candidate_files]


def count_files(stats: Any) -> int:
    kinds = ("data_files", "transaction_files", "index_files", "deletion_files")
    return sum(int(getattr(stats, f"{kind}_removed")) for kind in kinds)


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
