# SPDX-License-Identifier: Apache-2.0
"""A full vacuum's own listing of a folder on this machine's disks, which follows no link.

Delta's listing follows links. It is given this one instead, so that a link made after our checks adds no names to it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lakehand.jobs.boundary import refuse_odd
from lakehand.jobs.job import Job

VIEW = "lakehand_inventory"
CLAUSE = "USING INVENTORY (SELECT * FROM lakehand_inventory)"
SCHEMA = "path string, length long, isDir boolean, modificationTime long"
NOT_HIDDEN = ("_change_data", "_delta_index")


class ListedEntry(NamedTuple):
    """A file or an empty folder."""

    path: str  # relative to the table
    length: int
    is_folder: bool
    modified: int  # milliseconds since 1970


def provide(job: Job, entries: Iterable[ListedEntry], partition_columns: Sequence[str]) -> None:
    """Make the entries a view of the job's session, which the statement names."""
    root = f"file:{job.boundary.real}"
    rows = [(f"{root}/{one.path}", *one[1:]) for one in entries if not is_hidden(one.path, partition_columns)]
    job.session.createDataFrame(rows, SCHEMA).createOrReplaceTempView(VIEW)


def is_hidden(path: str, partition_columns: Sequence[str]) -> bool:
    """By Delta's rule for its own listing. Given an inventory, Delta looks at the first name only."""
    shown = (*NOT_HIDDEN, *(f"{column}=" for column in partition_columns))
    return any(name.startswith((".", "_")) and not name.startswith(shown) for name in path.split("/"))


def entries_below(root: str) -> Iterator[ListedEntry]:
    """A link, a pipe or a device raises. Folders with something in them are left out: they are never deleted."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(f"{root}/{inside}") as found:
                entries = list(found)
        except FileNotFoundError:  # a writer's temporary folder
            continue
        if inside and not entries:
            yield from entry_at(f"{root}/{inside}", inside.rstrip("/"), is_folder=True)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{inside}{entry.name}/")
                continue
            refuse_odd(entry)
            yield from entry_at(entry.path, inside + entry.name, is_folder=False)


def entry_at(whole: str, path: str, *, is_folder: bool) -> Iterator[ListedEntry]:
    try:
        found = os.lstat(whole)
    except FileNotFoundError:
        return
    yield ListedEntry(path, found.st_size, is_folder, found.st_mtime_ns // 1_000_000)
