# SPDX-License-Identifier: Apache-2.0
"""Statistics of a table and of its partitions: whether they are worth computing, and whether they were computed.

A snapshot has one file of each kind. To set it makes no snapshot, so that no tag tells who did: the file itself, which
was not there when the operation was admitted, is the proof.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from lakehand.formats.iceberg.commits import SnapshotCommit, ancestors
from lakehand.formats.iceberg.context import IcebergContext, IcebergEffect, totals
from lakehand.formats.iceberg.rewrites import ON_COMMIT
from lakehand.formats.iceberg.snapshot import IcebergSnapshot, StatisticsFile, whole_number
from lakehand.spi import Action, Invalid, Json, Skip, Status, Verdict, amount, kit
from lakehand.spi.kit import BEFORE, Need
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.spi.pauses import minutes

COMPUTE_STATISTICS = Action.register("compute-statistics")
COMPUTE_PARTITION_STATISTICS = Action.register("compute-partition-statistics")
REPLACES = "replaces"  # in the parameters of a process: the file that the snapshot had when it was admitted
MOST_COLUMNS = 100
# Types that are one text in the schema, and that Iceberg has no distinct counts of.
ODD_TYPES = ("variant", "unknown", "geometry", "geography")
COLUMNS = kit.columns_setting(
    "iceberg.compute-statistics.columns", "columns to count the distinct values of", set_by=kit.SetBy.REQUEST,
    default_text="the first 100 that are not structs, lists or maps",
)  # fmt: skip
MAX_BYTES = kit.bytes_setting(
    "iceberg.compute-statistics.max-bytes", "larger tables are read only on request: all of their data is",
    100 * 1024**3,
)  # fmt: skip
CHANGED_SHARE = {
    action: kit.share_setting(
        f"iceberg.{action}.changed-share", f"so many {what} must have come or gone since the last time", 0.1,
        floor=0.001,
    )
    for action, what in (
        (COMPUTE_STATISTICS, "rows"),
        (COMPUTE_PARTITION_STATISTICS, "data and delete files"),
    )
}  # fmt: skip
EVERY = {
    action: kit.duration_setting(
        f"iceberg.{action}.every", "time between two computations, at least", pause, floor=timedelta(minutes=1)
    )
    for action, pause in (
        (COMPUTE_STATISTICS, timedelta(days=1)),
        (COMPUTE_PARTITION_STATISTICS, timedelta(hours=1)),
    )
}


class StatisticsKind(NamedTuple):
    """One of the two kinds: where the metadata lists its files, and what makes them out of date."""

    list: str
    name: str
    changes: tuple[str, ...]  # in the summary of a snapshot
    totals: tuple[str, ...]
    what: str
    counts_rewrites: bool  # whether a rewrite of the same rows makes a difference
    can_replace: bool  # whether Iceberg computes them anew where there are some


KINDS: Mapping[Action, StatisticsKind] = {
    COMPUTE_STATISTICS: StatisticsKind(
        "statistics", "statistics", ("added-records", "deleted-records", "added-position-deletes"), ("total-records",),
        "rows", counts_rewrites=False, can_replace=True,
    ),
    COMPUTE_PARTITION_STATISTICS: StatisticsKind(
        "partition-statistics", "partition statistics",
        ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files"),
        ("total-data-files", "total-delete-files"), "files", counts_rewrites=True, can_replace=False,
    ),
}  # fmt: skip


class Changes(NamedTuple):
    """How far the newest statistics are behind the current snapshot."""

    commits: int
    changed: int  # rows or files that came or went
    total: int  # rows or files now

    @property
    def share(self) -> float:
        return self.changed / max(self.total, 1)


def why_nothing_to_count(context: IcebergContext) -> str | None:
    snapshot = context.snapshot
    if snapshot.current is None or not whole_number(snapshot.current.summary, "total-data-files", 1):
        return "the table has no data files: there is nothing to count"
    if context.action == COMPUTE_PARTITION_STATISTICS and not is_partitioned(snapshot):
        return "the table has no partitions"
    return None


def is_partitioned(snapshot: IcebergSnapshot) -> bool:
    """Now or earlier, as Iceberg has it."""
    oldest = [{"fields": snapshot.metadata.get("partition-spec") or ()}]  # of version 1
    specs = snapshot.metadata.get("partition-specs") or oldest
    return any(field.get("transform") != "void" for spec in specs for field in spec.get("fields") or ())


def decide_statistics(context: IcebergContext) -> Need | Skip:
    snapshot, kind = context.snapshot, KINDS[context.action]
    assert snapshot.current is not None
    line, files = list(ancestors(snapshot.commits, snapshot.current.id)), snapshot.statistics(kind.list)
    at = next((place for place, commit in enumerate(line) if commit.id in files), None)
    if at is None:
        text = f"none of {len(line)} snapshots has {kind.name}"
    elif not snapshot.is_there(files[line[at].id]):
        text = f"the file with the {kind.name} of snapshot {line[at].id}, {at} commits ago, is not there"
    elif at == 0:
        return Skip(reason=f"the current snapshot, {line[0].id}, has {kind.name}")
    else:
        found, share = count_changes(kind, line[:at]), context.values[CHANGED_SHARE[context.action]]
        text = (
            f"the newest {kind.name} are {found.commits} commits old: {found.changed} {kind.what} came or went,"
            f" {found.share:.1%} of {found.total}"
        )
        if found.share < share:
            return Skip(reason=f"{text}; {share:.1%} are worth it")
    return too_large(context, text) or too_soon(context, text) or Need(reason=text)


def count_changes(kind: StatisticsKind, since: Sequence[SnapshotCommit]) -> Changes:
    """``since``: the commits without statistics, newest first."""
    counted = [one for one in since if kind.counts_rewrites or one.summary.get("operation") != "replace"]
    changed = sum(whole_number(one.summary, name, 0) for one in counted for name in kind.changes)
    return Changes(len(since), changed, sum(whole_number(since[0].summary, name, 0) for name in kind.totals))


def too_large(context: IcebergContext, text: str) -> Skip | None:
    """Statistics of a table read all of it; those of partitions read manifests."""
    most = context.values[MAX_BYTES]
    if context.action != COMPUTE_STATISTICS or (size := table_bytes(context.snapshot)) <= most:
        return None
    key = MAX_BYTES.key
    return Skip(reason=f"{text}; but {amount(size)} would be read, and {key} is {amount(most)}")


def table_bytes(snapshot: IcebergSnapshot) -> int:
    known = whole_number(snapshot.current.summary, "total-files-size", 0) if snapshot.current else 0
    return known or sum(file.size for file in snapshot.data_files)


def too_soon(context: IcebergContext, text: str) -> Skip | None:
    """A table that changes each minute is not read each minute."""
    ended = (o for o in context.table.operations(context.action) if o.status is Status.SUCCEEDED)
    last = next(ended, None)
    if last is None or context.was_tried:
        return None
    pause = context.values[EVERY[context.action]]
    left = (last.finished_at or last.updated_at) + pause - context.table.now
    if left <= timedelta():
        return None
    return Skip(
        reason=f"{text}; operation {last.id} computed them, and the next is in {minutes(left)}", look_again=left
    )


def statistics_limits(context: IcebergContext) -> dict[str, Json]:
    return {"columns": list(chosen_columns(context)), **replaced_file(context)}


def replaced_file(context: IcebergContext) -> dict[str, Json]:
    """The statistics of the snapshot that is current now, if it has some already."""
    current = context.snapshot.current
    known = context.snapshot.statistics(KINDS[context.action].list).get(current.id) if current else None
    return {REPLACES: known.path if known else None}


def chosen_columns(context: IcebergContext) -> Sequence[str]:
    columns = schema_columns(context.snapshot)
    if wanted := context.values[COLUMNS]:
        if unknown := [name for name in wanted if name.partition(".")[0] not in columns and name not in columns]:
            raise Invalid(f"{COLUMNS.key} names {', '.join(unknown)}, which the table does not have")
        return wanted
    plain = [name for name, kind in columns.items() if has_distinct_values(name, kind)]
    if not plain:
        raise Invalid("the table has no column whose distinct values Iceberg counts")
    return plain[:MOST_COLUMNS]


def has_distinct_values(name: str, kind: object) -> bool:
    """Spark would take a dot or a backtick in a name for something else."""
    return isinstance(kind, str) and not kind.startswith(ODD_TYPES) and not set(name) & {".", "`"}


def schema_columns(snapshot: IcebergSnapshot) -> Mapping[str, Any]:
    """Names and types of the columns that the current snapshot was written with."""
    schemas = {one.get("schema-id"): one for one in snapshot.metadata.get("schemas") or ()}
    raw = (one for one in snapshot.metadata.get("snapshots") or () if snapshot.current)
    number = next(one.get("schema-id") for one in raw if one["snapshot-id"] == snapshot.metadata["current-snapshot-id"])
    if number not in schemas:
        raise Invalid(
            "the current snapshot does not say which schema it was written with: Iceberg counts nothing there"
        )
    return {field["name"]: field["type"] for field in schemas[number]["fields"]}


def has_committed(context: IcebergContext) -> bool:
    """Whether an earlier attempt has set the file."""
    if context.action not in KINDS:
        return False
    return new_file(context.snapshot, context.action, context.admitted_parameters) is not None


def new_file(snapshot: IcebergSnapshot, action: Action, parameters: Mapping[str, Json]) -> StatisticsFile | None:
    """The file that the snapshot has now and did not have when the operation was admitted."""
    target = parameters.get(BEFORE)
    found = snapshot.statistics(KINDS[action].list).get(target) if isinstance(target, int) else None
    return found if found and found.path != parameters.get(REPLACES) else None


def verify_statistics(effect: IcebergEffect) -> Verdict:
    kind, target = KINDS[effect.process.action], effect.parameters.get(BEFORE)
    found = new_file(effect.snapshot, effect.process.action, effect.parameters)
    old = effect.snapshot.statistics(kind.list).get(target) if isinstance(target, int) else None
    if found is None and old and not kind.can_replace and effect.snapshot.is_there(old):
        return done(f"nothing to do: snapshot {target} has {kind.name}", totals(effect), changed=False)
    if found is None:
        return not_done(f"the metadata names no new {kind.name} of snapshot {target}")
    if not effect.snapshot.is_there(found):
        return not_done(f"{found.path} with the {kind.name} of snapshot {target} is not there, or was cut off")
    columns = f" of {found.columns} columns" if kind.can_replace else ""
    reason = f"snapshot {target} has {kind.name}{columns}: {amount(found.size)} in {found.path.rpartition('/')[2]}"
    return done(reason, {"snapshot": target, "statistics": found.path, "columns": found.columns, **totals(effect)})


COMPUTE = tuple(
    kit.ActionDefinition(
        name=name, strategy=ON_COMMIT, settings=settings, impossible=why_nothing_to_count, decide=decide_statistics,
        limits=limits, verify=verify_statistics, is_optional=True,
    )
    for name, settings, limits in (
        (COMPUTE_STATISTICS, (COLUMNS, MAX_BYTES, CHANGED_SHARE[COMPUTE_STATISTICS], EVERY[COMPUTE_STATISTICS]),
         statistics_limits),
        (COMPUTE_PARTITION_STATISTICS,
         (CHANGED_SHARE[COMPUTE_PARTITION_STATISTICS], EVERY[COMPUTE_PARTITION_STATISTICS]), replaced_file),
    )
)  # fmt: skip
