# SPDX-License-Identifier: Apache-2.0
"""Deletes files that no version within the retention needs: lists them first, and checks the list before it acts.

Delta's own listing of a folder follows links. On local disks a full vacuum is given one of ours instead, so that a link
made after our checks adds no names to it.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakehand.jobs.boundary import walk
from lakehand.jobs.delta import tables
from lakehand.jobs.job import Job
from lakehand.jobs.paths import path_part
from lakehand.jobs.safety import BelowFloor, SafetyError, refuse_implausible, whole_number, would_delete
from lakehand.jobs.spark import list_folder

FLOOR_HOURS = 168
MODES = ("lite", "full")
VIEW = "lakehand_inventory"
CLAUSE = "USING INVENTORY (SELECT * FROM lakehand_inventory)"
SCHEMA = "path string, length long, isDir boolean, modificationTime long"
NOT_HIDDEN = ("_change_data", "_delta_index")
# The folders that MARKERS of lakehand.jobs.boundary are in.
MARKER_FOLDERS = ("_delta_log", ".hoodie", "metadata", "snapshot", "schema", "_versions")
# Files that Delta writes beside the data: a vacuum deletes them by the same rules, but no commit removes them by name.
BESIDE = ("deletion_vector_", "cdc-")
GLOB = "{}[]*?\\"


def run(job: Job) -> dict[str, Any]:
    statement = statement_of(job)
    # Delta's own check stays on, whatever the cluster's settings say, and the log records what was done.
    tables.configure(job, retentionDurationCheck__enabled="true", vacuum__logging__enabled="true")
    job.phase("checking the boundary")
    check_table(job)
    job.phase("reading the history")
    if any(is_end(one) for one in tables.own_commits(job)):
        return {"already_done": True}
    job.phase("listing what would go")
    found = [str(row["path"]) for row in job.session.sql(f"{statement} DRY RUN").collect()]
    job.note("would_delete_files", len(found))
    check_list(job, found)
    live = live_files(job)
    refuse_live(found, live)
    left = {"left_outside": job.parameters.get("left_outside") or 0}
    if job.parameters.get("dry_run") is not False:
        return {**would_delete(sorted(found)), **left}
    if job.parameters["mode"] == "full":
        refuse_unexpected(job, found, live)
    job.check()
    job.phase(f"deleting {len(found)} files")
    check_table_again(job)
    check_list(job, found)
    job.session.sql(statement).collect()
    return {"already_done": False, "listed_files": len(found), **left}


def check_table(job: Job) -> None:
    """The table is the one that was admitted, with no link and no other table below it. Lists it for a full vacuum."""
    if not is_listed_by_us(job):
        check_table_again(job)
        return
    job.boundary.check_path()
    entries = list(entries_below(job.boundary.real))
    job.boundary.refuse_tables_below("delta", (one.path for one in entries if not one.is_folder))
    columns = tables.partition_columns(tables.newest_version(job))
    fresh = (time.time() - FLOOR_HOURS * 3600) * 1000  # a writer may be about to fill a folder that it has just made
    provide(job, (one for one in entries if not (one.is_folder and one.modified > fresh)), columns)


def check_table_again(job: Job) -> None:
    job.boundary.check_path()
    if lists_folders(job):
        job.boundary.refuse_tables_below("delta", job.boundary.files(job.session))
    tables.newest_version(job)


def check_list(job: Job, found: Sequence[str]) -> None:
    """A lite vacuum deletes what the log names, also by ``..`` outside of the table."""
    job.boundary.refuse_outside(found, doing="delete")
    if not lists_folders(job):
        refuse_tables_around(job, found)


def lists_folders(job: Job) -> bool:
    """On local disks links must be searched for in any case, and one walk finds links and tables."""
    return job.boundary.is_local or job.parameters["mode"] == "full"


def is_listed_by_us(job: Job) -> bool:
    return job.boundary.is_local and job.parameters["mode"] == "full"


def statement_of(job: Job) -> str:
    hours, mode = whole_number(job.parameters["retain_hours"], "retain_hours"), job.parameters["mode"]
    if hours < FLOOR_HOURS:
        raise BelowFloor(f"a vacuum that keeps {hours} h is refused: {FLOOR_HOURS} h are the least")
    if mode not in MODES:
        raise ValueError(f"{mode!r} is not a way to vacuum: {' or '.join(MODES)}")
    inventory = f" {CLAUSE}" if is_listed_by_us(job) else ""
    return f"VACUUM {tables.table_name(job)} {mode.upper()}{inventory} RETAIN {hours} HOURS"


def is_end(commit: dict[str, Any]) -> bool:
    status = (commit.get("operationParameters") or {}).get("status")
    return commit["operation"] == "VACUUM END" and status == "COMPLETED"


class LiveFileListed(SafetyError):
    """The list of what would go names a file that the newest version needs."""


class ListedEntry(NamedTuple):
    """A file or an empty folder."""

    path: str  # relative to the table
    length: int
    is_folder: bool
    modified: int  # milliseconds since 1970


def entries_below(root: str) -> Iterator[ListedEntry]:
    """Folders with something in them are left out: they are never deleted."""
    for path, entry in walk(root):
        try:
            found = os.lstat(f"{root}/{path}")
        except FileNotFoundError:
            continue
        yield ListedEntry(path, found.st_size, entry is None, found.st_mtime_ns // 1_000_000)


def provide(job: Job, entries: Iterable[ListedEntry], partition_columns: Sequence[str]) -> None:
    """Make the entries a view of the job's session, which the statement names."""
    root = f"file:{job.boundary.real}"
    rows = [(f"{root}/{one.path}", *one[1:]) for one in entries if not is_hidden(one.path, partition_columns)]
    job.session.createDataFrame(rows, SCHEMA).createOrReplaceTempView(VIEW)


def is_hidden(path: str, partition_columns: Sequence[str]) -> bool:
    """By Delta's rule for its own listing. Of an inventory, Delta checks only the first name of a path."""
    shown = (*NOT_HIDDEN, *(f"{column}=" for column in partition_columns))
    return any(name.startswith((".", "_")) and not name.startswith(shown) for name in path.split("/"))


def refuse_tables_around(job: Job, files: Sequence[str]) -> None:
    """For an object store, where nothing walks over all files: lists each folder that a file would be deleted from."""
    start = len(path_part(job.boundary.real)) + 1
    folders = {PurePosixPath(path_part(file)[start:]).parent for file in files}
    between = sorted({str(one) for folder in folders for one in (folder, *folder.parents)} - {"."})
    job.boundary.refuse_tables_below("delta", (file for folder in between for file in marker_files(job, folder)))


def marker_files(job: Job, folder: str) -> Iterator[str]:
    """The files in the folders that a table would have there."""
    for child in list_folder(job.session, f"{job.boundary.real}/{folder}"):
        if child.is_folder and child.name in MARKER_FOLDERS:
            yield from (f"{folder}/{child.name}/{one.name}" for one in list_folder(job.session, child.path))


def live_files(job: Job) -> list[str]:
    """As the listing names them: whole, and not encoded."""
    return list(job.session.read.format("delta").load(job.boundary.real).inputFiles())


def refuse_live(found: Sequence[str], live: Sequence[str]) -> None:
    if both := set(live).intersection(found):
        raise LiveFileListed(f"{len(both)} of {len(found)} files that would go are live, for instance {min(both)}")


def refuse_unexpected(job: Job, found: Sequence[str], live: Sequence[str]) -> None:
    """Files that a commit removed are expected to go; others were never committed, or their commits are forgotten."""
    names = {basename(path) for path in found}
    data = {name for name in names if not name.startswith(BESIDE)}
    unknown = data - removed_names(job)
    what = "would go although no commit in the log removed them"
    refuse_implausible(job.parameters, len(unknown), len(data) + len(live), what=what)


def removed_names(job: Job) -> set[str]:
    folder = "".join(f"\\{c}" if c in GLOB else c for c in f"{job.boundary.real.rstrip('/')}/_delta_log")
    reader = job.session.read.schema("remove struct<path: string>").option("pathGlobFilter", "*.json")
    rows = reader.json(folder).where("remove.path is not null").select("remove.path").distinct().collect()
    return {unquote(basename(row["path"])) for row in rows}


def basename(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
