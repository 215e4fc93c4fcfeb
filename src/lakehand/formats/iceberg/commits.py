# SPDX-License-Identifier: Apache-2.0
"""The snapshots in a table's history; those of a metadata file with very many of them take little memory."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from lakehand.spi.kit.conversions import moment_of
from lakehand.storage import Piece, Storage, Wanted, put_together, read_large

TAG = "lakehand-operation"  # in a snapshot's summary: the operation that made it
MANIFESTS_ONLY = "entries-processed"  # in the summary of a commit that rewrote manifests, and no files
FLINK_JOB = "flink.job-id"
FLINK_OPERATOR = "flink.operator-id"
SNAPSHOTS = "snapshots"
RECENT = 1000  # commits of a large file whose numbers are kept; nothing is counted further back
_KIND = ("operation", MANIFESTS_ONLY, FLINK_JOB, FLINK_OPERATOR)
_NUMBERS = (
    "added-records", "deleted-records", "added-position-deletes", "added-data-files", "deleted-data-files",
    "added-delete-files", "removed-delete-files", "removed-files-size", "manifests-created", "manifests-replaced",
    "total-records", "total-data-files", "total-delete-files", "total-files-size",
)  # fmt: skip
# Of a large file: what decisions read, and so neither of the two logs. Snapshots are last: they need the current one.
WANTED = Wanted(
    members=(
        "format-version", "table-uuid", "location", "properties", "default-spec-id", "current-schema-id",
        "current-snapshot-id", "schema", "schemas", "partition-spec", "partition-specs", "refs", "statistics",
        "partition-statistics", SNAPSHOTS,
    ),
    items={
        SNAPSHOTS: {
            "snapshot-id": True, "parent-snapshot-id": True, "timestamp-ms": True, "schema-id": True,
            "manifest-list": True, "manifests": True, "summary": (*_KIND, TAG, *_NUMBERS),
        }
    },
)  # fmt: skip


class SnapshotCommit(NamedTuple):
    """One snapshot in the table's history."""

    id: int
    parent: int | None
    at: int  # epoch milliseconds
    summary: Mapping[str, str]
    manifest_list: str
    manifests: Sequence[str]  # very old tables name them here

    @property
    def time(self) -> datetime:
        return moment_of(self.at)


def commit_of(snapshot: Mapping[str, Any]) -> SnapshotCommit:
    return SnapshotCommit(
        id=snapshot["snapshot-id"],
        parent=snapshot.get("parent-snapshot-id"),
        at=snapshot["timestamp-ms"],
        summary=snapshot.get("summary") or {},
        manifest_list=snapshot.get("manifest-list") or "",
        manifests=snapshot.get("manifests") or (),
    )


class CommitRows(Mapping[int, SnapshotCommit]):
    """Very many commits, each made when it is asked for: a few numbers, and a summary that it shares with others.

    Only the current one names its manifests. Only the newest and our own have the numbers of their summaries.
    """

    def __init__(self) -> None:
        self.current: Mapping[str, Any] | None = None
        self._rows: dict[int, tuple[int | None, int, int]] = {}  # by id: parent, time, number of the summary
        self._summaries: list[Mapping[str, str]] = []
        self._numbers: dict[tuple[tuple[str, str], ...], int] = {}
        self._recent: deque[tuple[int, Mapping[str, str]]] = deque()

    def add(self, snapshot: Mapping[str, Any], current: int | None) -> None:
        commit = commit_of(snapshot)
        if commit.id == current:
            self.current = snapshot
        is_own = TAG in commit.summary
        kept = commit.summary if is_own else {key: commit.summary[key] for key in _KIND if key in commit.summary}
        self._rows[commit.id] = (commit.parent, commit.at, self._number_of(kept))
        self._recent.append((commit.id, commit.summary))
        if len(self._recent) > RECENT:
            self._recent.popleft()

    def _number_of(self, summary: Mapping[str, str]) -> int:
        key = tuple(summary.items())
        if key not in self._numbers:
            self._numbers[key] = len(self._summaries)
            self._summaries.append(summary)
        return self._numbers[key]

    def finish(self) -> None:
        """After the last: the newest get their whole summaries."""
        for number, summary in self._recent:
            parent, at, _ = self._rows[number]
            self._rows[number] = (parent, at, self._number_of(summary))
        self._recent.clear()
        self._numbers.clear()

    def __getitem__(self, id: int) -> SnapshotCommit:
        parent, at, number = self._rows[id]
        if self.current is not None and id == self.current["snapshot-id"]:
            return commit_of(self.current)
        return SnapshotCommit(id, parent, at, self._summaries[number], "", ())

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class LargeMetadata(dict[str, Any]):
    """What is wanted of a large metadata file; ``snapshots`` has the current one alone, ``commits`` has all."""

    commits: Mapping[int, SnapshotCommit] | None = None


def read_large_metadata(storage: Storage, path: str, location: str) -> Any:
    rows = CommitRows()
    try:
        found = put_together(without_snapshots(read_large(storage, path, location, WANTED), rows))
        rows.finish()
    except (AttributeError, KeyError, TypeError) as error:
        raise OSError(f"{location} cannot be read: it is not the metadata of an Iceberg table: {error!r}") from error
    if not len(rows) or not isinstance(found, dict):
        return found
    document = LargeMetadata({**found, SNAPSHOTS: [rows.current] if rows.current else []})
    document.commits = rows
    return document


def without_snapshots(pieces: Iterator[Piece], rows: CommitRows) -> Iterator[Piece]:
    """Snapshots go into rows as they come, so that they are not in memory twice."""
    current = None
    for kind, path, value in pieces:
        if kind == "+" and path == [SNAPSHOTS]:
            for snapshot in value:
                rows.add(snapshot, current)
            continue
        if kind == "+" and not path:
            current = value.get("current-snapshot-id", current)
        yield kind, path, value


def ancestors(commits: Mapping[int, SnapshotCommit], head: int) -> Iterator[SnapshotCommit]:
    commit = commits.get(head)
    while commit is not None:
        yield commit
        commit = commits.get(commit.parent) if commit.parent is not None else None
