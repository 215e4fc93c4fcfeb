# SPDX-License-Identifier: Apache-2.0
"""Removes files below the table that no metadata names: what failed writes left behind."""

from datetime import timedelta

from lakehand.formats.iceberg.context import IcebergContext, IcebergEffect, removed_files, totals
from lakehand.formats.iceberg.snapshot import why_files_are_kept
from lakehand.spi import Action, Json, Skip, Status, Verdict, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.spi.pauses import DRY_RUN, minutes

DAY = timedelta(days=1)
NAME = Action.register("remove-orphans")
OLDER_THAN = kit.retention_setting(
    "iceberg.remove-orphans.older-than", "younger files are left alone", 3 * DAY, 3 * DAY,
    replaces=("iceberg.remove-orphans.older-than-hours",),
    floor_replaces=("iceberg.remove-orphans.older-than-hours-floor",),
)  # fmt: skip
EVERY = kit.duration_setting(
    "iceberg.remove-orphans.every", "time between two removals", 7 * DAY, floor=timedelta(hours=1),
    replaces=("iceberg.remove-orphans.every-hours",),
)  # fmt: skip


def decide(context: IcebergContext) -> Need | Skip:
    """Only a listing finds them, and it is expensive: done once in a while, and not on tables too young to have any."""
    table, commits = context.table, context.snapshot.commits.values()
    age = context.values[OLDER_THAN]
    oldest = min((commit.time for commit in commits), default=None)
    if oldest is None or table.now - oldest < age:
        return Skip(reason=f"no snapshot is older than {duration_text(age)}: nothing can be left over from before that")
    ended = (o for o in table.operations(NAME) if o.status is Status.SUCCEEDED)
    last = next((o for o in ended if not o.process.parameters.get(DRY_RUN)), None)
    if last is None:
        return Need(reason=f"no earlier removal is known; {len(commits)} snapshots are known")
    ended_at = last.finished_at or last.updated_at
    if (left := ended_at + context.values[EVERY] - table.now) > timedelta():
        when = f"{ended_at:%Y-%m-%d %H:%M} UTC; the next is due in {minutes(left)}"
        return Skip(reason=f"operation {last.id} removed orphans at {when}", look_again=left)
    since = sum(commit.time > ended_at for commit in commits)
    return Need(reason=f"the last removal was {minutes(table.now - ended_at)} ago, and {since} commits since")


def limits(context: IcebergContext) -> dict[str, Json]:
    return {"older_than": milliseconds(context.table.now - context.values[OLDER_THAN])}


def verify(effect: IcebergEffect) -> Verdict:
    """Metadata knows nothing of orphans: the job's result counts, if the table can still be read in full."""
    deleted = effect.result.get("deleted_files")
    if not isinstance(deleted, int):
        return not_done("the removal did not come to its end; the next takes the rest")
    reason = f"{deleted} orphans were deleted; the table's {len(effect.snapshot.files)} files are listed as before"
    return done(reason, {**totals(effect), **removed_files(effect)}, changed=deleted > 0)


REMOVE_ORPHANS = kit.ActionDefinition(
    name=NAME, strategy=at_fixed_rate(DAY, parallelism=2), settings=(OLDER_THAN, EVERY), impossible=why_files_are_kept,
    decide=decide, limits=limits, verify=verify, has_dry_run=True, commits=False,
)  # fmt: skip
