# SPDX-License-Identifier: Apache-2.0
"""What an Iceberg table needs now, by action, and what the job must know."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from lakehand.formats.iceberg import needs, settings
from lakehand.formats.iceberg.metadata import NEWEST
from lakehand.formats.iceberg.retention import SnapshotRetention, expirable
from lakehand.formats.iceberg.settings import IcebergContext
from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    TAG,
    IcebergSnapshot,
)
from lakehand.spi import Action, Json, Skip, Status, TableRuntime
from lakehand.spi.kit import Need
from lakehand.spi.pauses import DRY_RUN, minutes

IN_THE_WAY = frozenset({REWRITE_DATA, REWRITE_POSITION_DELETES})  # of row-level writes; manifests are in nobody's way
ROW_LEVEL = frozenset({"overwrite", "delete"})
MOST_SNAPSHOTS = 2000  # of one operation; the next one takes the rest


def decide(context: IcebergContext) -> Need | Skip:
    if why := why_never(context.snapshot, context.action):
        return Skip(reason=why)
    if context.by_person or has_tag(context):
        return Need(reason="")
    return NEEDS[context.action](context)


def has_tag(context: IcebergContext) -> bool:
    """Whether an earlier attempt has committed: the job sees that, too, and the table will tell."""
    return context.operation is not None and bool(context.snapshot.tagged(context.operation.tag))


def why_never(snapshot: IcebergSnapshot, action: Action) -> str | None:
    if snapshot.why_read_only:
        return snapshot.why_read_only
    if snapshot.version > NEWEST:
        return f"the table has format version {snapshot.version}; up to {NEWEST} are known"
    is_kept = snapshot.properties.get("gc.enabled", "true").lower() == "false"
    if is_kept and action in (EXPIRE_SNAPSHOTS, REMOVE_ORPHANS):
        return "the table's property gc.enabled is false: its files may belong to other tables, too"
    return None


def not_now(context: IcebergContext) -> Skip | None:
    """Leaves writers room: a row-level write that began before our rewrite is committed would lose against it."""
    snapshot, now = context.snapshot, context.table.now
    if context.action not in IN_THE_WAY or snapshot.current is None or has_tag(context):
        return None
    quiet = context.values[settings.QUIET]
    if left := remaining(snapshot.current.time + quiet, now):
        return Skip(reason=f"the last commit is younger than {minutes(quiet)}: decided again then", look_again=left)
    rest = context.values[settings.REST]
    own = [commit.time for commit in snapshot.commits.values() if TAG in commit.summary]
    if own and has_row_level_writers(now, snapshot) and (left := remaining(max(own) + rest, now)):
        reason = f"rewritten at {max(own):%H:%M} UTC: row-level writers have {minutes(rest)} to themselves"
        return Skip(reason=reason, look_again=left)
    return None


def has_row_level_writers(now: datetime, snapshot: IcebergSnapshot) -> bool:
    recent = (commit for commit in snapshot.commits.values() if now - commit.time < timedelta(days=1))
    return any(commit.summary.get("operation") in ROW_LEVEL and TAG not in commit.summary for commit in recent)


def remaining(until: datetime, now: datetime) -> timedelta | None:
    return until - now if until > now else None


def decide_data(context: IcebergContext) -> Need | Skip:
    return needs.data_need(context.snapshot, settings.data_rules(context.values, context.snapshot))


def decide_position_deletes(context: IcebergContext) -> Need | Skip:
    return needs.deletes_need(context.snapshot, settings.delete_rules(context.values, context.snapshot))


def decide_manifests(context: IcebergContext) -> Need | Skip:
    return needs.manifests_need(context.snapshot, settings.manifest_rules(context.values, context.snapshot))


def decide_expiry(context: IcebergContext) -> Need | Skip:
    kept = retention(context)
    gone = expirable(context.snapshot, kept)
    age = f"{kept.max_age / 3_600_000:g} h"
    told = f"{len(gone)} of {len(context.snapshot.commits)} snapshots are older than {age} and nobody holds them"
    least = context.values[settings.AT_LEAST]
    if len(gone) < least:
        return Skip(reason=f"{told}; {least} are worth it")
    return Need(reason=f"{told}, the oldest of {gone[0].time:%Y-%m-%d %H:%M} UTC")


def retention(context: IcebergContext) -> SnapshotRetention:
    millisecond = timedelta(milliseconds=1)
    return SnapshotRetention(
        now=milliseconds(context.table.now),
        max_age=context.values[settings.MAX_AGE] // millisecond,
        min_snapshots=context.values[settings.MIN_SNAPSHOTS],
        flink_age=context.values[settings.FLINK_AGE] // millisecond,
        in_use=in_use(context.table),
    )


def in_use(table: TableRuntime) -> frozenset[int]:
    """What unfinished operations started from: their conflict checks walk back to it."""
    started = (o.process.parameters.get("before") for o in table.operations() if not o.status.is_final)
    return frozenset(before for before in started if isinstance(before, int))


def decide_orphans(context: IcebergContext) -> Need | Skip:
    """Only a listing tells, and it is expensive: done once in a while, and not on tables too young to have any."""
    table, commits = context.table, context.snapshot.commits.values()
    age = context.values[settings.OLDER_THAN]
    oldest = min((commit.time for commit in commits), default=None)
    if oldest is None or table.now - oldest < age:
        return Skip(reason=f"no snapshot is older than {hours(age)}: nothing can be left over from before that")
    last = next((o for o in table.operations(REMOVE_ORPHANS) if is_removal(o.status, o.process.parameters)), None)
    if last is None:
        return Need(reason=f"no earlier removal is known; {len(commits)} snapshots are known")
    done = last.finished_at or last.updated_at
    if left := remaining(done + context.values[settings.EVERY], table.now):
        when = f"{done:%Y-%m-%d %H:%M} UTC; the next is due in {minutes(left)}"
        return Skip(reason=f"operation {last.id} removed orphans at {when}", look_again=left)
    since = sum(commit.time > done for commit in commits)
    return Need(reason=f"the last removal was {hours(table.now - done)} ago, and {since} commits since")


def is_removal(status: Status, parameters: Mapping[str, object]) -> bool:
    return status is Status.SUCCEEDED and not parameters.get(DRY_RUN)


def hours(span: timedelta) -> str:
    return f"{span / timedelta(hours=1):.0f} h"


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


NEEDS: Mapping[Action, Callable[[IcebergContext], Need | Skip]] = {
    REWRITE_DATA: decide_data,
    REWRITE_POSITION_DELETES: decide_position_deletes,
    REWRITE_MANIFESTS: decide_manifests,
    EXPIRE_SNAPSHOTS: decide_expiry,
    REMOVE_ORPHANS: decide_orphans,
}


def parameters(context: IcebergContext) -> dict[str, Json]:
    snapshot, reference = context.snapshot, context.table.reference
    return {
        "catalog": reference.catalog.name if reference.catalog else "",
        "namespace": reference.db_name if reference.catalog else "",
        "table": reference.table_name if reference.catalog else "",
        "identity": snapshot.identity,
        "before": snapshot.current.id if snapshot.current else None,
        "seen": snapshot.totals(),
        **LIMITS[context.action](context),
    }


def data_options(context: IcebergContext) -> dict[str, Json]:
    """The thresholds of the decision, as Iceberg's own planner knows them."""
    rules = settings.data_rules(context.values, context.snapshot)
    options = {
        "target-file-size-bytes": str(rules.target),
        "min-file-size-bytes": str(rules.small),
        "min-input-files": str(rules.min_files),
        "delete-file-threshold": str(rules.delete_files),
        "delete-ratio-threshold": str(rules.delete_ratio),
        "max-files-to-rewrite": str(rules.max_files),
        "remove-dangling-deletes": "true",
        "use-starting-sequence-number": "true",
        **rewrite_all(context),
    }
    return {"rewrite": options, "order": dict(rules.order)}


def delete_options(context: IcebergContext) -> dict[str, Json]:
    rules = settings.delete_rules(context.values, context.snapshot)
    return {"rewrite": {"min-input-files": str(rules.min_files), **rewrite_all(context)}}


def rewrite_all(context: IcebergContext) -> dict[str, str]:
    """For one request, never a standing order: it has no fixed point."""
    return {"rewrite-all": "true"} if context.values[settings.REWRITE_ALL[context.action]] else {}


def expiry_limits(context: IcebergContext) -> dict[str, Json]:
    """Exactly these snapshots, and no others: a request may keep more than the table does, never less."""
    kept = retention(context)
    gone = expirable(context.snapshot, kept)[:MOST_SNAPSHOTS]
    return {
        "expire": [commit.id for commit in gone],
        "older_than": kept.now - kept.max_age,
        "min_snapshots": kept.min_snapshots,
    }


def orphan_limits(context: IcebergContext) -> dict[str, Json]:
    return {"older_than": milliseconds(context.table.now - context.values[settings.OLDER_THAN])}


LIMITS: Mapping[Action, Callable[[IcebergContext], dict[str, Json]]] = {
    REWRITE_DATA: data_options,
    REWRITE_POSITION_DELETES: delete_options,
    REWRITE_MANIFESTS: lambda context: {},
    EXPIRE_SNAPSHOTS: expiry_limits,
    REMOVE_ORPHANS: orphan_limits,
}
