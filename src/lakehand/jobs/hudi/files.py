# SPDX-License-Identifier: Apache-2.0
"""Lists and reads the small files of a table's timeline: by Python on this machine's disks, by Hadoop elsewhere.

Every job does this twice for its checks, and calls into the JVM are slow while Spark is busy.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical


@dataclass(frozen=True)
class ListedFile:
    path: str
    is_folder: bool
    size: int
    modified: float  # seconds since the epoch

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def list_folder(job: Job, folder: str) -> list[ListedFile]:
    """Its files and folders; nothing where there is no such folder."""
    folder = canonical(folder)
    return list_local(folder) if folder.startswith("/") else list_stored(job, folder)


def list_local(folder: str) -> list[ListedFile]:
    found: list[ListedFile] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                is_folder = entry.is_dir(follow_symlinks=False)
                found.append(ListedFile(entry.path, is_folder, status.st_size, status.st_mtime))
    except FileNotFoundError:  # the folder, or a file that a writer has just removed
        return found if not os.path.isdir(folder) else list_local(folder)  # noqa: PTH112
    return found


def list_stored(job: Job, folder: str) -> list[ListedFile]:
    path, files = hadoop_path(job, folder), file_system(job)
    found = files.listStatus(path) if files.exists(path) else ()
    return [
        ListedFile(
            str(one.getPath().toString()), bool(one.isDirectory()), int(one.getLen()), one.getModificationTime() / 1000
        )
        for one in found
    ]


def read_file(job: Job, path: str) -> bytes:
    if path.startswith("/"):
        return Path(path).read_bytes()
    stream = file_system(job).open(hadoop_path(job, path))
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def file_system(job: Job) -> Any:
    root = hadoop_path(job, job.boundary.real)
    return root.getFileSystem(job.session._jsparkSession.sessionState().newHadoopConf())


def hadoop_path(job: Job, path: str) -> Any:
    return java(job).org.apache.hadoop.fs.Path(path)


def java(job: Job) -> Any:
    return job.session.sparkContext._jvm
