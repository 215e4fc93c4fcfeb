# SPDX-License-Identifier: Apache-2.0
"""What a table needs now, by action: a process with its reason, or nothing and why."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from lakehand.formats.iceberg import needs, settings
from lakehand.formats.iceberg.metadata import NEWEST
from lakehand.formats.iceberg.needs import Need
from lakehand.formats.iceberg.retention import Retention, expirable
from lakehand.formats.iceberg.settings import Floors
from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    TAG,
    IcebergSnapshot,
)
from lakehand.spi import Action, Skip, Status, TableConfig, TableProcess, TableRuntime, pause
from lakehand.spi.pauses import DRY_RUN, minutes

IN_THE_WAY = frozenset({REWRITE_DATA, REWRITE_POSITION_DELETES})  # of row-level writes; manifests are in nobody's way
ROW_LEVEL = frozenset({"overwrite", "delete"})


def decide(table: TableRuntime, snapshot: IcebergSnapshot, action: Action, floors: Floors) -> TableProcess | Skip:
    if why := why_never(table.config, snapshot, action):
        return Skip(reason=why)
    if waiting := pause(table, action):
        return waiting
    need = NEEDS[action](table, snapshot, floors)
    if isinstance(need, Skip):
        return need
    if waiting := not_now(table, snapshot, action):
        return waiting
    return TableProcess(action=action, job=job_of(action), reason=need.reason)


def job_of(action: Action) -> str:
    return f"iceberg.{action.replace('-', '_')}"


def why_never(config: TableConfig, snapshot: IcebergSnapshot, action: Action) -> str | None:
    if off := settings.switched_off(config, action):
        return off
    if snapshot.why_read_only:
        return snapshot.why_read_only
    if snapshot.version > NEWEST:
        return f"the table has format version {snapshot.version}; up to {NEWEST} are known"
    is_kept = snapshot.properties.get("gc.enabled", "true").lower() == "false"
    if is_kept and action in (EXPIRE_SNAPSHOTS, REMOVE_ORPHANS):
        return "the table's property gc.enabled is false: its files may belong to other tables, too"
    return None


def not_now(table: TableRuntime, snapshot: IcebergSnapshot, action: Action) -> Skip | None:
    """Leaves writers room: a row-level write that began before our rewrite is committed would lose against it."""
    if action not in IN_THE_WAY or snapshot.current is None:
        return None
    quiet = table.config.duration(settings.QUIET, timedelta())
    if left := remaining(snapshot.current.time + quiet, table.now):
        return Skip(reason=f"the last commit is younger than {minutes(quiet)}: looked at again then", look_again=left)
    rest = table.config.duration(settings.REST, timedelta(minutes=10))
    own = [commit.time for commit in snapshot.commits.values() if TAG in commit.summary]
    if own and has_row_level_writers(table, snapshot) and (left := remaining(max(own) + rest, table.now)):
        reason = f"rewritten at {max(own):%H:%M} UTC: row-level writers have {minutes(rest)} to themselves"
        return Skip(reason=reason, look_again=left)
    return None


def has_row_level_writers(table: TableRuntime, snapshot: IcebergSnapshot) -> bool:
    recent = (commit for commit in snapshot.commits.values() if table.now - commit.time < timedelta(days=1))
    return any(commit.summary.get("operation") in ROW_LEVEL and TAG not in commit.summary for commit in recent)


def remaining(until: datetime, now: datetime) -> timedelta | None:
    return until - now if until > now else None


def found(need: Need) -> Need | Skip:
    return need if need.is_there else Skip(reason=need.reason)


def data(table: TableRuntime, snapshot: IcebergSnapshot, floors: Floors) -> Need | Skip:
    return found(needs.data_need(snapshot, settings.data_rules(table.config, snapshot)))


def position_deletes(table: TableRuntime, snapshot: IcebergSnapshot, floors: Floors) -> Need | Skip:
    return found(needs.deletes_need(snapshot, settings.delete_rules(table.config, snapshot)))


def manifests(table: TableRuntime, snapshot: IcebergSnapshot, floors: Floors) -> Need | Skip:
    return found(needs.manifests_need(snapshot, settings.manifest_rules(table.config, snapshot)))


def old_snapshots(table: TableRuntime, snapshot: IcebergSnapshot, floors: Floors) -> Need | Skip:
    kept = retention(table, floors, table.config)
    gone = expirable(snapshot, kept)
    age = f"{kept.max_age / 3_600_000:g} h"
    told = f"{len(gone)} of {len(snapshot.commits)} snapshots are older than {age} and nobody holds them"
    least = max(table.config.number(settings.AT_LEAST, 1), 1)
    if len(gone) < least:
        return Skip(reason=f"{told}; {least} are worth it")
    return Need(is_there=True, reason=f"{told}, the oldest of {gone[0].time:%Y-%m-%d %H:%M} UTC")


def retention(table: TableRuntime, floors: Floors, config: TableConfig) -> Retention:
    return Retention(
        now=milliseconds(table.now),
        max_age=settings.max_age(config, floors) // timedelta(milliseconds=1),
        min_snapshots=settings.min_snapshots(config),
        flink_age=settings.flink_age(config) // timedelta(milliseconds=1),
        in_use=in_use(table),
    )


def in_use(table: TableRuntime) -> frozenset[int]:
    """What unfinished operations started from: their conflict checks walk back to it."""
    started = (o.process.parameters.get("before") for o in table.operations() if not o.status.is_final)
    return frozenset(before for before in started if isinstance(before, int))


def orphans(table: TableRuntime, snapshot: IcebergSnapshot, floors: Floors) -> Need | Skip:
    """Only a listing tells, and it is dear: done once in a while, and not on tables too young to have any."""
    age = settings.orphan_age(table.config, floors)
    every = timedelta(hours=max(table.config.ratio(settings.EVERY, 168), 1))
    oldest = min((commit.time for commit in snapshot.commits.values()), default=None)
    if oldest is None or table.now - oldest < age:
        return Skip(reason=f"no snapshot is older than {hours(age)}: nothing can be left over from before that")
    last = next((o for o in table.operations(REMOVE_ORPHANS) if is_sweep(o.status, o.process.parameters)), None)
    if last is None:
        return Need(is_there=True, reason=f"nobody remembers a sweep; {len(snapshot.commits)} snapshots are known")
    done = last.finished_at or last.updated_at
    if left := remaining(done + every, table.now):
        reason = f"operation {last.id} swept it at {done:%Y-%m-%d %H:%M} UTC; the next sweep is due in {minutes(left)}"
        return Skip(reason=reason, look_again=left)
    since = sum(commit.time > done for commit in snapshot.commits.values())
    return Need(is_there=True, reason=f"the last sweep was {hours(table.now - done)} ago, and {since} commits since")


def is_sweep(status: Status, parameters: Mapping[str, object]) -> bool:
    return status is Status.SUCCEEDED and not parameters.get(DRY_RUN)


def hours(span: timedelta) -> str:
    return f"{span / timedelta(hours=1):.0f} h"


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


NEEDS: Mapping[Action, Callable[[TableRuntime, IcebergSnapshot, Floors], Need | Skip]] = {
    REWRITE_DATA: data,
    REWRITE_POSITION_DELETES: position_deletes,
    REWRITE_MANIFESTS: manifests,
    EXPIRE_SNAPSHOTS: old_snapshots,
    REMOVE_ORPHANS: orphans,
}
