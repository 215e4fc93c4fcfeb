# SPDX-License-Identifier: Apache-2.0
"""Looks for other tables in the folders of files that would be deleted: for an object store, where no walk is made."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paths import path_part

# The folders that MARKERS of lakehand.jobs.boundary look into.
TELLING = ("_delta_log", ".hoodie", "metadata", "snapshot", "schema", "_versions")


def refuse_tables_around(job: Job, files: Sequence[str]) -> None:
    """One listing for each folder below the table that something would be deleted from."""
    start = len(path_part(job.boundary.real).rstrip("/")) + 1
    inside = sorted(folders_of(path_part(file)[start:] for file in files))
    job.boundary.refuse_tables_below("delta", (file for folder in inside for file in signs(job, folder)))


def folders_of(files: Iterable[str]) -> set[str]:
    """All folders between the table and the files, relative to the table."""
    found: set[str] = set()
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def signs(job: Job, folder: str) -> Iterator[str]:
    """The files in the folders that a table would have there."""
    for name, is_folder in children(job, folder):
        if is_folder and name in TELLING:
            yield from (f"{folder}/{name}/{child}" for child, _ in children(job, f"{folder}/{name}"))


def children(job: Job, folder: str) -> Iterator[tuple[str, bool]]:
    jvm: Any = job.session.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{job.boundary.real}/{folder}")
    found = path.getFileSystem(job.session._jsparkSession.sessionState().newHadoopConf())
    for status in found.listStatus(path) if found.exists(path) else ():
        yield str(status.getPath().getName()), bool(status.isDirectory())
