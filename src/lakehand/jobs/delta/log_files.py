# SPDX-License-Identifier: Apache-2.0
"""The files of a table's log as a job lists them, and which checkpoints among them are complete."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lakehand.jobs.job import Job
from lakehand.jobs.spark import ListedFile, list_folder

FOLDER = "_delta_log"
SIDECARS = "_sidecars"
COMMIT, CHECKSUM, CHECKPOINT = "json", "crc", "checkpoint"
_NAME = re.compile(
    r"(?P<version>\d{20})\.(?P<kind>json|crc|checkpoint(?:\.\d{10}\.(?P<parts>\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json))"
)


@dataclass(frozen=True)
class ListedLogFile:
    """A commit, the checksum of one, or a checkpoint or a part of one."""

    version: int
    kind: str
    parts: int  # of the checkpoint that it is a part of; 0: it is whole
    listed: ListedFile


def log_folder(job: Job) -> str:
    return f"{job.boundary.real.rstrip('/')}/{FOLDER}"


def list_log(job: Job) -> list[ListedLogFile]:
    """By version. Other files and folders of the log, such as ``_last_checkpoint``, are left out."""
    files = ((one, _NAME.fullmatch(one.name)) for one in list_folder(job.session, log_folder(job)) if not one.is_folder)
    found = [
        ListedLogFile(int(match["version"]), match["kind"].partition(".")[0], int(match["parts"] or 0), file)
        for file, match in files
        if match
    ]
    return sorted(found, key=lambda file: (file.version, file.listed.name))


def commits_of(files: Iterable[ListedLogFile]) -> dict[int, ListedLogFile]:
    return {file.version: file for file in files if file.kind == COMMIT}


def checkpoints_of(files: Iterable[ListedLogFile]) -> set[int]:
    """The versions of complete checkpoints; Delta takes an empty file for none."""
    parts = Counter((file.version, file.parts) for file in files if file.kind == CHECKPOINT and file.listed.size)
    return {version for (version, total), count in parts.items() if count >= max(total, 1)}
