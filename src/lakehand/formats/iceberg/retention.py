# SPDX-License-Identifier: Apache-2.0
"""Which snapshots may go: everything that is old enough and that no branch, tag, Flink job or operation holds on to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehand.formats.iceberg.snapshot import IcebergSnapshot, Ref, SnapshotCommit, whole_number

FLINK_JOB = "flink.job-id"
FLINK_OPERATOR = "flink.operator-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRetention:
    """What is kept at least. Times are epoch milliseconds."""

    now: int
    max_age: int
    min_snapshots: int
    flink_age: int  # a Flink job that has not committed for so long holds nothing
    in_use: frozenset[int] = frozenset()  # what unfinished operations started from


def expirable(snapshot: IcebergSnapshot, kept: SnapshotRetention) -> list[SnapshotCommit]:
    """Snapshots that may go, oldest first. A table's and a branch's own settings can only keep more."""
    held = {ref.snapshot for ref in snapshot.refs.values()} | kept.in_use
    reached: set[int] = set()
    for ref in snapshot.refs.values():
        if ref.is_branch:
            line = list(ancestors(snapshot.commits, ref.snapshot))
            reached |= {commit.id for commit in line}
            held |= {commit.id for commit in line[: needed(snapshot, ref, line, kept)]}
    oldest = kept.now - longest_age(snapshot, None, kept)
    held |= {one.id for one in snapshot.commits.values() if one.id not in reached and one.at >= oldest}
    gone = [commit for commit in snapshot.commits.values() if commit.id not in held]
    return sorted(gone, key=lambda commit: commit.at)


def needed(snapshot: IcebergSnapshot, ref: Ref, line: Sequence[SnapshotCommit], kept: SnapshotRetention) -> int:
    """How many snapshots of a branch stay, from its head down without a gap: Flink and conflict checks walk them."""
    least = max(
        kept.min_snapshots, ref.min_snapshots or 1,
        whole_number(snapshot.properties, "history.expire.min-snapshots-to-keep", 1),
    )  # fmt: skip
    oldest = kept.now - longest_age(snapshot, ref, kept)
    anchors = kept.in_use | flink_anchors(line, kept.now - kept.flink_age)
    wanted = [at for at, commit in enumerate(line) if commit.at >= oldest or commit.id in anchors]
    return max(least, *(at + 1 for at in wanted[-1:]), 1)


def longest_age(snapshot: IcebergSnapshot, ref: Ref | None, kept: SnapshotRetention) -> int:
    of_table = whole_number(snapshot.properties, "history.expire.max-snapshot-age-ms", 0)
    return max(kept.max_age, of_table, (ref.max_age or 0) if ref else 0)


def flink_anchors(line: Sequence[SnapshotCommit], since: int) -> frozenset[int]:
    """The newest commit of each Flink job: it says which checkpoint is in the table."""
    newest: dict[tuple[str, str], SnapshotCommit] = {}
    for commit in line:
        if job := commit.summary.get(FLINK_JOB):
            newest.setdefault((job, commit.summary.get(FLINK_OPERATOR, "")), commit)
    return frozenset(commit.id for commit in newest.values() if commit.at >= since)


def ancestors(commits: Mapping[int, SnapshotCommit], head: int) -> Iterator[SnapshotCommit]:
    commit = commits.get(head)
    while commit is not None:
        yield commit
        commit = commits.get(commit.parent) if commit.parent is not None else None
