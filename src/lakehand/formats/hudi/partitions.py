# SPDX-License-Identifier: Apache-2.0
"""The partitions of a table, from a listing of its folder: what is live in each, and when it was last written."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from lakehand.formats.hudi import plans
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.storage import Entry

MARKER = ".hoodie_partition_metadata"  # in the folder of each partition
_DATA = re.compile(r"\.?(?P<group>[^_.][^_]*)_(?:\d+-\d+-\d+_)?(?P<instant>\d{14}|\d{17})\..+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """One partition and its live files. A file counts as written at its instant or its change, whichever is later.

    Log files of old tables bear the instant of their base file, and instants may be in a writer's own time zone.
    """

    path: str
    last_write: datetime
    files: int
    bytes: int


def partitions_of(snapshot: HudiSnapshot) -> list[PartitionFolder]:
    """Those with live files, the one that was written longest ago first."""
    replacing = snapshot.timeline.completed("replacecommit")
    replaced = {group for file in replacing for group in plans.replaced_groups(snapshot.document(file))}
    found = live_partitions(snapshot.storage.below(snapshot.root), replaced)
    return sorted(found, key=lambda one: (one.last_write, one.path))


def live_partitions(entries: Iterable[Entry], replaced: Collection[str]) -> list[PartitionFolder]:
    folders: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    marked: set[str] = set()
    for entry in entries:
        folder, _, name = entry.name.rpartition("/")
        data = _DATA.fullmatch(name)
        if name == MARKER:
            marked.add(folder)
        elif data and data["group"] not in replaced:
            folders[folder].append((written_at(entry, data["instant"]), entry.size))
    return [folder_of(path, files) for path, files in folders.items() if path and path in marked]


def folder_of(path: str, files: list[tuple[datetime, int]]) -> PartitionFolder:
    return PartitionFolder(
        path=path, last_write=max(at for at, _ in files), files=len(files), bytes=sum(size for _, size in files)
    )


def written_at(entry: Entry, instant: str) -> datetime:
    try:
        by_name = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:  # digits that are no time
        return entry.modified
    return max(by_name, entry.modified)
