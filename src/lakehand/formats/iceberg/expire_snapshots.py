# SPDX-License-Identifier: Apache-2.0
"""What every decision about an Iceberg table keeps, when snapshots expire, and when orphans are removed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehand.formats.iceberg import settings
from lakehand.formats.iceberg.catalogs import HADOOP
from lakehand.formats.iceberg.commits import FLINK_JOB, FLINK_OPERATOR, MANIFESTS_ONLY, TAG, SnapshotCommit
from lakehand.formats.iceberg.metadata import NEWEST
from lakehand.formats.iceberg.settings import IcebergContext
from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_POSITION_DELETES,
    IcebergSnapshot,
    Ref,
    whole_number,
)
from lakehand.spi import Action, Json, Skip, Status, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds
from lakehand.spi.pauses import DRY_RUN, minutes

IN_THE_WAY = frozenset({REWRITE_DATA, REWRITE_POSITION_DELETES})  # of row-level writes; manifests are in nobody's way
ROW_LEVEL = frozenset({"overwrite", "delete"})
MOST_SNAPSHOTS = 2000  # of one operation; the next one takes the rest


class SnapshotRetention(NamedTuple):
    """What is kept at least. Times are epoch milliseconds."""

    now: int
    max_age: int
    min_snapshots: int
    flink_age: int  # a Flink job that has not committed for so long holds nothing
    in_use: frozenset[int] = frozenset()  # what unfinished operations started from


def why_never(snapshot: IcebergSnapshot, action: Action) -> str | None:
    if snapshot.why_read_only:
        return snapshot.why_read_only
    if snapshot.version > NEWEST:
        return f"the table has format version {snapshot.version}; up to {NEWEST} are known"
    is_kept = snapshot.properties.get("gc.enabled", "true").lower() == "false"
    if is_kept and action in (EXPIRE_SNAPSHOTS, REMOVE_ORPHANS):
        return "the table's property gc.enabled is false: its files may belong to other tables, too"
    return None


def commit_risk(context: IcebergContext) -> str | None:
    """A catalog commits one of two and refuses the other. Hadoop layout relies on a rename that does not overwrite."""
    catalog = context.table.reference.catalog
    if (catalog is not None and catalog.type != HADOOP) or context.values[settings.ONLY_WRITER]:
        return None
    return kit.commit_risk(
        context.table.table.location, kit.ATOMIC_RENAME, settings.ONLY_WRITER,
        what="one of two commits to a table in Hadoop layout is lost",
        way_out="Keep the table in a catalog (REST, JDBC, Hive), and register it by that",
    ) or None  # fmt: skip


def has_committed(context: IcebergContext) -> bool:
    """Whether an earlier attempt has committed: the job sees that, too, and the verdict will."""
    return context.operation is not None and bool(context.snapshot.tagged(context.operation.tag))


def not_now(context: IcebergContext) -> Skip | None:
    """Leaves writers room: a row-level write that began before our rewrite is committed would lose against it."""
    if context.action not in IN_THE_WAY or context.snapshot.current is None or has_committed(context):
        return None
    now = context.table.now
    return kit.leave_room(history_of(context.snapshot, now), settings.ROOM, context.values, now)


def history_of(snapshot: IcebergSnapshot, now: datetime) -> kit.CommitHistory:
    """Of all branches: a rewrite of manifests changes no file, so that it does not count."""
    commits = snapshot.commits.values()
    others = [commit for commit in commits if TAG not in commit.summary]
    return kit.CommitHistory(
        writes=[commit.time for commit in others],
        rewrites=[c.time for c in commits if TAG in c.summary and MANIFESTS_ONLY not in c.summary],
        has_row_level_writers=any(
            commit.summary.get("operation") in ROW_LEVEL and now - commit.time < timedelta(days=1) for commit in others
        ),
    )


def remaining(until: datetime, now: datetime) -> timedelta | None:
    return until - now if until > now else None


def decide_expiry(context: IcebergContext) -> Need | Skip:
    gone, snapshots = expirable(context.snapshot, retention(context)), len(context.snapshot.commits)
    age, least = duration_text(context.values[settings.MAX_AGE]), context.values[settings.AT_LEAST]
    text = f"{len(gone)} of {snapshots} snapshots are older than {age} and nobody holds them"
    if len(gone) < least:
        return Skip(reason=f"{text}; {least} are worth it")
    return Need(reason=f"{text}, the oldest of {gone[0].time:%Y-%m-%d %H:%M} UTC")


def expiry_limits(context: IcebergContext) -> dict[str, Json]:
    """Exactly these snapshots, and no others: a request may keep more than the table does, never less."""
    kept = retention(context)
    gone = expirable(context.snapshot, kept)[:MOST_SNAPSHOTS]
    return {
        "expire": [commit.id for commit in gone],
        "older_than": kept.now - kept.max_age,
        "min_snapshots": kept.min_snapshots,
    }


def retention(context: IcebergContext) -> SnapshotRetention:
    """Unfinished operations hold the snapshots that they started from: their conflict checks walk back to them."""
    started = (o.process.parameters.get("before") for o in context.table.operations() if not o.status.is_final)
    millisecond = timedelta(milliseconds=1)
    return SnapshotRetention(
        now=milliseconds(context.table.now),
        max_age=context.values[settings.MAX_AGE] // millisecond,
        min_snapshots=context.values[settings.MIN_SNAPSHOTS],
        flink_age=context.values[settings.FLINK_AGE] // millisecond,
        in_use=frozenset(before for before in started if isinstance(before, int)),
    )


def decide_orphans(context: IcebergContext) -> Need | Skip:
    """Only a listing finds them, and it is expensive: done once in a while, and not on tables too young to have any."""
    table, commits = context.table, context.snapshot.commits.values()
    age = context.values[settings.OLDER_THAN]
    oldest = min((commit.time for commit in commits), default=None)
    if oldest is None or table.now - oldest < age:
        return Skip(reason=f"no snapshot is older than {duration_text(age)}: nothing can be left over from before that")
    ended = (o for o in table.operations(REMOVE_ORPHANS) if o.status is Status.SUCCEEDED)
    last = next((o for o in ended if not o.process.parameters.get(DRY_RUN)), None)
    if last is None:
        return Need(reason=f"no earlier removal is known; {len(commits)} snapshots are known")
    done = last.finished_at or last.updated_at
    if left := remaining(done + context.values[settings.EVERY], table.now):
        when = f"{done:%Y-%m-%d %H:%M} UTC; the next is due in {minutes(left)}"
        return Skip(reason=f"operation {last.id} removed orphans at {when}", look_again=left)
    since = sum(commit.time > done for commit in commits)
    return Need(reason=f"the last removal was {minutes(table.now - done)} ago, and {since} commits since")


def orphan_limits(context: IcebergContext) -> dict[str, Json]:
    return {"older_than": milliseconds(context.table.now - context.values[settings.OLDER_THAN])}


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
    """The newest commit of each Flink job: its summary names the checkpoint that is in the table."""
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
