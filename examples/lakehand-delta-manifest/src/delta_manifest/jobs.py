# SPDX-License-Identifier: Apache-2.0
"""The jobs: the same manifests, written by Delta on Spark, or by the deltalake library where no Spark is wanted."""

from pathlib import Path
from typing import Any

from delta_manifest.manifests import FILE, FOLDER, live_files, name_of, newest_version
from lakehand.jobs.job import Job


def generate_on_spark(job: Job) -> dict[str, Any]:
    location = job.boundary.real
    if "`" in location:
        raise ValueError(f"{location} cannot be quoted")
    job.phase("writing manifests")
    job.check()
    job.boundary.check()  # no link below the table may lead the manifests out of it
    job.session.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{location}`")
    return {"location": f"{location}/{FOLDER}"}


def generate_in_python(job: Job) -> dict[str, Any]:
    from deltalake import DeltaTable

    location = job.boundary.real
    if not location.startswith("/"):
        raise ValueError(f"{location} is not on this machine: take the spark engine for it")
    job.phase("writing manifests")
    job.check()
    job.boundary.check()  # no link below the table may lead the manifests out of it
    DeltaTable(location).generate()
    job.phase("removing manifests of partitions that are gone")
    job.boundary.check()
    removed = remove_stale(location)
    return {"location": f"{location}/{FOLDER}", "removed": removed}


def remove_stale(location: str) -> int:
    """The library writes what there is, and leaves what there was."""
    live = live_files(location, newest_version(location))
    stale = [file for file in Path(location, FOLDER).rglob(FILE) if live.isdisjoint(map(name_of, lines_of(file)))]
    for file in stale:
        file.unlink()
    return len(stale)


def lines_of(file: Path) -> list[str]:
    return file.read_text().split()
