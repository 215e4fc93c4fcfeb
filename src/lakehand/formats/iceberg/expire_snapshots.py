# SPDX-License-Identifier: Apache-2.0
"""Expires snapshots that are older than the table keeps them, and deletes the files that only they need."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from lakehand.formats.iceberg.commits import FLINK_JOB, FLINK_OPERATOR, SnapshotCommit, ancestors
from lakehand.formats.iceberg.context import IcebergContext, IcebergEffect, removed_files, totals
from lakehand.formats.iceberg.snapshot import IcebergSnapshot, Ref, whole_number, why_files_are_kept
from lakehand.spi import Action, Json, Skip, Verdict, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds, whole_numbers
from lakehand.spi.kit.verdicts import done, left_outside, not_done

MOST_SNAPSHOTS = 2000  # of one operation; the next one takes the rest
DAY = timedelta(days=1)
MAX_AGE = kit.retention_setting(
    "iceberg.expire-snapshots.max-age", "snapshots are kept this long", 5 * DAY, DAY,
    replaces=("iceberg.expire-snapshots.max-age-hours",),
    floor_replaces=("iceberg.expire-snapshots.max-age-hours-floor",),
)  # fmt: skip
MIN_SNAPSHOTS = kit.retained_count_setting(
    "iceberg.expire-snapshots.min-snapshots", "newest snapshots of each branch that are kept whatever their age", 1, 1
)
AT_LEAST = kit.count_setting(
    "iceberg.expire-snapshots.at-least", "snapshots past their age that make it worth it", 1, floor=1
)
FLINK_AGE = kit.duration_setting(
    "iceberg.expire-snapshots.flink-max-age", "a Flink job that has not committed for so long holds nothing",
    30 * DAY, floor=7 * DAY, replaces=("iceberg.expire-snapshots.flink-hours",),
)  # fmt: skip


class SnapshotRetention(NamedTuple):
    """What is kept at least. Times are epoch milliseconds."""

    now: int
    max_age: int
    min_snapshots: int
    flink_age: int  # a Flink job that has not committed for so long holds nothing
    in_use: frozenset[int] = frozenset()  # what unfinished operations started from


def decide(context: IcebergContext) -> Need | Skip:
    gone, snapshots = expirable(context.snapshot, retention(context)), len(context.snapshot.commits)
    age, least = duration_text(context.values[MAX_AGE]), context.values[AT_LEAST]
    text = f"{len(gone)} of {snapshots} snapshots are older than {age} and nobody holds them"
    if len(gone) < least:
        return Skip(reason=f"{text}; {least} are worth it")
    return Need(reason=f"{text}, the oldest of {gone[0].time:%Y-%m-%d %H:%M} UTC")


def limits(context: IcebergContext) -> dict[str, Json]:
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
        max_age=context.values[MAX_AGE] // millisecond,
        min_snapshots=context.values[MIN_SNAPSHOTS],
        flink_age=context.values[FLINK_AGE] // millisecond,
        in_use=frozenset(before for before in started if isinstance(before, int)),
    )


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


def verify(effect: IcebergEffect) -> Verdict:
    snapshot, result = effect.snapshot, effect.result
    expected, kept = whole_numbers(effect.parameters.get("expire")), whole_numbers(result.get("kept"))
    heads = {ref.snapshot for ref in snapshot.refs.values()}
    left = [one for one in expected if one in snapshot.commits]
    if stuck := [one for one in left if one not in heads and one not in kept]:
        return not_done(f"{len(stuck)} of {len(expected)} snapshots are still there")
    gone = len(expected) - len(left)
    deleted = {key: result[key] for key in ("deleted_files", "left_outside") if key in result}
    numbers = {"expired": gone, **totals(effect), **deleted, **removed_files(effect)}
    if not expected:
        return done("nothing to do: no snapshot may go", numbers, changed=False)
    held = f"; {len(left)} got a branch or tag meanwhile" if left else ""
    reason = f"{gone} snapshots were expired, {len(snapshot.commits)} are left{held}{left_outside(result)}"
    return done(reason, numbers, changed=gone > 0)


EXPIRE_SNAPSHOTS = kit.ActionDefinition(
    name=Action.register("expire-snapshots"), strategy=at_fixed_rate(timedelta(hours=6)),
    settings=(MAX_AGE, MIN_SNAPSHOTS, AT_LEAST, FLINK_AGE), impossible=why_files_are_kept,
    decide=decide, limits=limits, verify=verify, has_dry_run=True,
)  # fmt: skip
