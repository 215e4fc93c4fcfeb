# SPDX-License-Identifier: Apache-2.0
"""The state of a Delta table at one version: its live files, and tombstones of removed ones, commit by commit."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Partition = tuple[tuple[str, str | None], ...]  # (physical name of the column, value), in order
_ROWS = re.compile(r'"numRecords"\s*:\s*(\d+)')


class LiveFile(NamedTuple):
    """A live file. A tuple, since a table may have a million of them."""

    path: str
    size: int
    modified: int  # milliseconds since 1970
    partition: Partition = ()
    deleted: int = -1  # rows that its deletion vector marks; -1: it has none
    rows: int = -1  # known for files with a deletion vector; -1: unknown
    clustered_by: str = ""  # who keeps it clustered, in tables with liquid clustering

    @property
    def has_vector(self) -> bool:
        return self.deleted >= 0


class Tombstone(NamedTuple):
    path: str
    removed: int  # milliseconds since 1970
    size: int  # 0 when the log does not have it


def added_file(add: Mapping[str, Any]) -> LiveFile:
    vector = add.get("deletionVector")
    return LiveFile(
        path=add["path"],
        size=add.get("size") or 0,
        modified=add.get("modificationTime") or 0,
        partition=partition_of((add.get("partitionValues") or {}).items()),
        deleted=vector.get("cardinality") or 0 if vector else -1,
        rows=row_count(add.get("stats")) if vector else -1,
        clustered_by=add.get("clusteringProvider") or "",
    )


def removed_file(remove: Mapping[str, Any]) -> Tombstone:
    return Tombstone(remove["path"], remove.get("deletionTimestamp") or 0, remove.get("size") or 0)


def partition_of(values: Iterable[tuple[str, str | None]]) -> Partition:
    """An empty text means null in the log."""
    return tuple(sorted([(key, value or None) for key, value in values]))


def row_count(stats: str | None) -> int:
    """The statistics can be long; only one number of them is needed."""
    found = _ROWS.search(stats) if stats else None
    return int(found[1]) if found else -1


@dataclass(slots=True, kw_only=True)
class LogState:
    files: dict[str, LiveFile] = field(default_factory=dict)  # by path
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    domains: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # metadata of features, by name

    def apply(self, commit: Iterable[Mapping[str, Any]]) -> None:
        """Removals first: a commit that gives a file a new deletion vector removes and adds the same path."""
        for action in sorted(commit, key=lambda action: "remove" not in action):
            if "remove" in action:
                self.files.pop(action["remove"]["path"], None)
            self.restore(action)

    def restore(self, action: Mapping[str, Any]) -> None:
        """An action of a checkpoint: in any order, and a live file may have tombstones of its former vectors."""
        if "remove" in action:
            tombstone = removed_file(action["remove"])
            self.tombstones[tombstone.path] = tombstone
        elif "add" in action:
            file = added_file(action["add"])
            self.files[file.path] = file
            self.tombstones.pop(file.path, None)
        elif "metaData" in action:
            self.metadata = action["metaData"]
        elif "protocol" in action:
            self.protocol = action["protocol"]
        elif "domainMetadata" in action:
            self.domains[action["domainMetadata"]["domain"]] = action["domainMetadata"]

    def drop_tombstones_of_live_files(self) -> None:
        """After a checkpoint: what lives has no tombstone."""
        for path in self.tombstones.keys() & self.files.keys():
            del self.tombstones[path]
