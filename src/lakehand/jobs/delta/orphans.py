# SPDX-License-Identifier: Apache-2.0
"""A second opinion on what a vacuum would delete: nothing that lives, and not too much that the log never heard of."""

from collections.abc import Sequence
from urllib.parse import unquote

from lakehand.jobs.job import Job
from lakehand.jobs.safety import SafetyError, refuse_implausible

# Files that Delta writes beside the data: a vacuum deletes them by the same rules, but no commit removes them by name.
BESIDE = ("deletion_vector_", "cdc-")
GLOB = "{}[]*?\\"


class LiveFileListed(SafetyError):
    """The list of what would go names a file that the newest version needs."""


def refuse_live(found: Sequence[str], live: Sequence[str]) -> None:
    if both := set(live).intersection(found):
        raise LiveFileListed(f"{len(both)} of {len(found)} files that would go are live, for instance {min(both)}")


def refuse_unexpected(job: Job, found: Sequence[str], live: Sequence[str]) -> None:
    """Files that a commit removed are expected to go; others were never committed, or their commits are forgotten."""
    names = {basename(path) for path in found}
    data = {name for name in names if not name.startswith(BESIDE)}
    unknown = data - removed_names(job)
    is_confirmed = job.parameters.get("confirm") is True
    what = "would go although no commit in the log removed them"
    refuse_implausible(len(unknown), len(data) + len(live), is_confirmed=is_confirmed, what=what)


def live_files(job: Job) -> list[str]:
    """As the listing names them: whole, and not encoded."""
    return list(job.session.read.format("delta").load(job.boundary.real).inputFiles())


def removed_names(job: Job) -> set[str]:
    folder = "".join(f"\\{c}" if c in GLOB else c for c in f"{job.boundary.real.rstrip('/')}/_delta_log")
    reader = job.session.read.schema("remove struct<path: string>").option("pathGlobFilter", "*.json")
    rows = reader.json(folder).where("remove.path is not null").select("remove.path").distinct().collect()
    return {unquote(basename(row["path"])) for row in rows}


def basename(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
