# SPDX-License-Identifier: Apache-2.0
"""Deletes rows that are older than an age by a date or a timestamp of theirs: whole partitions and files, and rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from lakehand.formats.iceberg.commits import SnapshotCommit
from lakehand.formats.iceberg.context import IcebergContext, IcebergEffect, totals
from lakehand.formats.iceberg.manifests import ColumnBounds
from lakehand.formats.iceberg.rewrite_data import schema_of, spec_of
from lakehand.formats.iceberg.rewrites import leaves_room, rewrite_numbers
from lakehand.formats.iceberg.snapshot import MAIN, IcebergSnapshot, whole_number
from lakehand.spi import Action, Invalid, Json, Skip, Verdict, at_fixed_rate, kit
from lakehand.spi.kit import Need, data_expiry
from lakehand.spi.kit.conversions import moment_of, whole_numbers
from lakehand.spi.kit.data_expiry import DataExpiry, FileRange
from lakehand.spi.kit.verdicts import done, not_done

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DAY = 86_400_000_000  # microseconds
BYTES = {"date": 4, "timestamp": 8, "timestamptz": 8}  # of a bound, by the types that rows can grow old by
PERIODS = {"identity": "day", "hour": "day", "day": "day", "month": "month", "year": "year"}
COARSE = ("day", "month", "year")
EXPIRY = data_expiry.expiry_settings("iceberg")


class AgeColumn(NamedTuple):
    """The column by which rows grow old."""

    id: int
    name: str
    type: str

    @property
    def has_zone(self) -> bool:
        return self.type == "timestamptz"


def why_never(context: IcebergContext) -> str | None:
    if why := data_expiry.why_off(context, EXPIRY):
        return why
    try:
        column_of(context)
    except Invalid as error:
        return str(error)
    return None


def column_of(context: IcebergContext) -> AgeColumn:
    """By its exact name, at the top of the schema. Raises Invalid if rows cannot grow old by it."""
    name = context.values[EXPIRY.column]
    columns = schema_of(context.snapshot.metadata).get("fields") or ()
    found = next((one for one in columns if one.get("name") == name), None)
    if found is None:
        raise Invalid(f"{EXPIRY.column.key} is {name!r}, and the table has no such column at the top of its schema")
    kind = found.get("type") if isinstance(found.get("type"), str) else "a nested type"
    if kind not in BYTES:
        raise Invalid(f"{name} has the type {kind}: rows grow old by {', '.join(BYTES)} only")
    return AgeColumn(found["id"], name, kind)


def decide(context: IcebergContext) -> Need | Skip:
    if context.snapshot.current is None:
        return Skip(reason="the table has no snapshot")
    column = column_of(context)
    return data_expiry.decide_expiry(
        context, EXPIRY, find_expired(context.snapshot, column, cutoff_of(context, column))
    )


def cutoff_of(context: IcebergContext, column: AgeColumn) -> datetime:
    """The first of a month where the table is partitioned by month: then no file is rewritten for some of its rows."""
    used = time_fields(context.snapshot, column)
    period = max((PERIODS[kind] for _, kind in used.values()), key=COARSE.index, default="day")
    return data_expiry.cutoff_of(context, EXPIRY, has_zone=column.has_zone, period=period)


def limits(context: IcebergContext) -> dict[str, Json]:
    column = column_of(context)
    return data_expiry.expiry_parameters(column.name, cutoff_of(context, column))


def find_expired(snapshot: IcebergSnapshot, column: AgeColumn, cutoff: datetime) -> DataExpiry:
    return data_expiry.expiry_of(ranges_of(snapshot, column), cutoff)


def ranges_of(snapshot: IcebergSnapshot, column: AgeColumn) -> Iterator[FileRange]:
    """By partition values, which are read for all decisions; only where a table has none, by the bounds of files."""
    known = time_fields(snapshot, column)
    if known:
        for file in snapshot.data_files:
            if found := known.get(file.group[0]):
                at, kind = found
                yield FileRange(file.size, *span_of(kind, file.group[at + 1]))
    other = [one for one in snapshot.manifests if not one.holds_deletes and one.spec not in known]
    for bounds in snapshot.bounds(other, column.id):
        yield FileRange(bounds.size, *span_within(bounds, column))


def time_fields(snapshot: IcebergSnapshot, column: AgeColumn) -> Mapping[int, tuple[int, str]]:
    """Of each partition spec that files have: the place and the transform of the finest field that tells the time."""
    specs = {manifest.spec for manifest in snapshot.manifests if not manifest.holds_deletes}
    found = {}
    for spec in specs:
        fields = enumerate(spec_of(snapshot.metadata, spec).get("fields") or ())
        mine = [
            (at, str(one["transform"]))
            for at, one in fields
            if one.get("source-id") == column.id and one["transform"] in PERIODS
        ]
        if mine:
            found[spec] = min(mine, key=lambda one: list(PERIODS).index(one[1]))
    return found


def span_of(kind: str, value: Any) -> tuple[int | None, int | None]:
    """The first and the last microsecond of a partition; none without a value, which never grows old."""
    try:
        return (None, None) if value is None else microseconds_of(kind, value)
    except (OverflowError, TypeError, ValueError):  # of a year that no calendar has
        return None, None


def microseconds_of(kind: str, value: Any) -> tuple[int, int]:
    if kind == "identity" and isinstance(value, datetime):
        at = (value.replace(tzinfo=value.tzinfo or timezone.utc) - EPOCH) // timedelta(microseconds=1)
        return at, at
    if kind in ("identity", "day"):
        day = (value - EPOCH.date()).days if isinstance(value, date) else int(value)
        return day * DAY, (day + 1) * DAY - 1
    if kind == "hour":
        return int(value) * DAY // 24, (int(value) + 1) * DAY // 24 - 1
    months = 12 if kind == "year" else 1
    return month_start(int(value) * months), month_start((int(value) + 1) * months) - 1


def month_start(months: int) -> int:
    """In microseconds, by the number of the month since 1970."""
    return (date(1970 + months // 12, months % 12 + 1, 1) - EPOCH.date()).days * DAY


def span_within(bounds: ColumnBounds, column: AgeColumn) -> tuple[int | None, int | None]:
    lower, upper = (number(one, column) for one in (bounds.lower, bounds.upper))
    unit, rest = (DAY, DAY - 1) if column.type == "date" else (1, 0)
    return (
        None if lower is None else lower * unit,
        None if upper is None or bounds.nulls != 0 else upper * unit + rest,
    )


def number(value: bytes | None, column: AgeColumn) -> int | None:
    if value is None or len(value) != BYTES[column.type]:
        return None
    return int.from_bytes(value, "little", signed=True)


def verify(effect: IcebergEffect) -> Verdict:
    """The snapshot with the tag, after which no file is left with nothing but old rows, unless a writer added it."""
    tag = str(effect.parameters.get(kit.TAG) or "")
    if commits := effect.snapshot.tagged(tag) if tag else []:
        return deletion_verdict(effect, commits)
    if effect.result.get("deleted_rows") == 0:
        return done(f"nothing to do: no row is older than {cutoff_text(effect)}", totals(effect), changed=False)
    if found := [one for one in whole_numbers(effect.result.get("snapshots")) if effect.snapshot.is_built_on(one)]:
        named = ", ".join(map(str, found))
        reason = f"the table is built on snapshot {named} of this operation, which the catalog no longer lists"
        return done(reason, {**totals(effect), "committed": found})
    return not_done(f"no snapshot carries the tag {tag}: nothing was committed")


def deletion_verdict(effect: IcebergEffect, commits: Sequence[SnapshotCommit]) -> Verdict:
    snapshot, made = effect.snapshot, ", ".join(str(one.id) for one in commits)
    left = files_left(effect)
    if left and snapshot.current in commits:
        return not_done(f"{left} files with rows before {cutoff_text(effect)} only are still in snapshot {made}")
    rows = rows_deleted(effect, commits)
    held = sum(name != MAIN for name in snapshot.refs)
    more = f"; {held} branches and tags keep what they have" if held else ""
    late = f"; {left} files with such rows came later" if left else ""
    numbers = {
        **rewrite_numbers(effect, commits), "deleted_rows": rows,
        **kit.work_numbers(
            bytes_rewritten=sum(whole_number(one.summary, "added-files-size", 0) for one in commits)
        ),
    }  # fmt: skip
    return done(f"{rows} rows before {cutoff_text(effect)} were deleted in snapshot {made}{late}{more}", numbers)


def rows_deleted(effect: IcebergEffect, commits: Sequence[SnapshotCommit]) -> int:
    """As the job counted; without its result as the summaries do, with rows that delete files had hidden already."""
    counted = effect.result.get("deleted_rows")
    if isinstance(counted, int):
        return counted
    gone = sum(whole_number(one.summary, "deleted-records", 0) for one in commits)
    return gone - sum(whole_number(one.summary, "added-records", 0) for one in commits)


def files_left(effect: IcebergEffect) -> int:
    """How many live files have nothing but rows before the cutoff; none, if the column is gone meanwhile."""
    name, cutoff = effect.parameters.get("column"), effect.parameters.get("cutoff")
    columns = schema_of(effect.snapshot.metadata).get("fields") or ()
    found = [AgeColumn(one["id"], one["name"], str(one["type"])) for one in columns if one.get("name") == name]
    if not found or found[0].type not in BYTES or not isinstance(cutoff, int):
        return 0
    return find_expired(effect.snapshot, found[0], moment_of(cutoff)).whole.files


def cutoff_text(effect: IcebergEffect) -> str:
    cutoff = effect.parameters.get("cutoff")
    return f"{moment_of(cutoff):%Y-%m-%d}" if isinstance(cutoff, int) else "the cutoff"


# Rows grow old with time alone.
EXPIRE_DATA = kit.ActionDefinition(
    name=Action.register("expire-data"), strategy=at_fixed_rate(timedelta(days=1)), settings=EXPIRY,
    impossible=why_never, decide=decide, limits=limits, not_now=leaves_room, verify=verify, has_dry_run=True,
    is_optional=True,
)  # fmt: skip
