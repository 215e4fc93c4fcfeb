# SPDX-License-Identifier: Apache-2.0
"""The data files of a Delta table as its log tells of them: live ones, and tombstones of removed ones."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Partition = tuple[tuple[str, str | None], ...]  # (physical name of the column, value), in order
_ROWS = re.compile(r'"numRecords"\s*:\s*(\d+)')


class DataFile(NamedTuple):
    """A live file. A tuple, since a table may have a million of them."""

    path: str
    size: int
    modified: int  # milliseconds since 1970
    partition: Partition = ()
    deleted: int = -1  # rows that its deletion vector marks; -1: it has none
    rows: int = -1  # told of files with a deletion vector; -1: unknown
    clustered_by: str = ""  # who keeps it clustered, in tables with liquid clustering

    @property
    def has_vector(self) -> bool:
        return self.deleted >= 0


class Tombstone(NamedTuple):
    path: str
    removed: int  # milliseconds since 1970
    size: int  # 0 when the log does not tell


def added_file(add: Mapping[str, Any]) -> DataFile:
    vector = add.get("deletionVector")
    return DataFile(
        path=add["path"],
        size=add.get("size") or 0,
        modified=add.get("modificationTime") or 0,
        partition=partition_of((add.get("partitionValues") or {}).items()),
        deleted=vector.get("cardinality") or 0 if vector else -1,
        rows=row_count(add.get("stats")) if vector else -1,
        clustered_by=add.get("clusteringProvider") or "",
    )


def removed_file(remove: Mapping[str, Any]) -> Tombstone:
    return Tombstone(
        path=remove["path"], removed=remove.get("deletionTimestamp") or 0, size=remove.get("size") or 0
    )  # fmt: skip


def partition_of(values: Iterable[tuple[str, str | None]]) -> Partition:
    """An empty text means null in the log."""
    return tuple(sorted([(key, value or None) for key, value in values]))


def row_count(stats: str | None) -> int:
    """The statistics can be long; only one number of them is needed."""
    found = _ROWS.search(stats) if stats else None
    return int(found[1]) if found else -1
