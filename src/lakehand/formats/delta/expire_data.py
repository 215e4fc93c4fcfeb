# SPDX-License-Identifier: Apache-2.0
"""Deletes rows that are older than an age by a date or a timestamp of theirs, with Delta's own DELETE."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from lakehand.formats.delta import checkpoint_files
from lakehand.formats.delta.context import DeltaContext, DeltaEffect, is_older, numbers
from lakehand.formats.delta.files import LiveFile
from lakehand.formats.delta.log import Commit, info_of
from lakehand.formats.delta.rewrites import NOTHING, count_rewrite, leaves_room
from lakehand.formats.delta.snapshot import PHYSICAL, DeltaSnapshot, tagged, version_before
from lakehand.spi import Action, Invalid, Skip, Verdict, at_fixed_rate, kit
from lakehand.spi.kit import Need, data_expiry
from lakehand.spi.kit.conversions import moment_of
from lakehand.spi.kit.data_expiry import DataExpiry, FileRange
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.storage import parse_json

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DAY = 86_400_000_000  # microseconds
TYPES = ("date", "timestamp", "timestamp_ntz")
APPEND_ONLY, CHANGE_FEED = "delta.appendOnly", "delta.enableChangeDataFeed"
EXPIRY = data_expiry.expiry_settings("delta")
INTO_FEED = kit.flag_setting(
    "delta.expire-data.into-change-feed",
    "also where the table has a change data feed, whose readers will see the deletions", False,
)  # fmt: skip


class AgeColumn(NamedTuple):
    """The column by which rows grow old."""

    name: str
    physical: str  # as statistics and partition values have it
    type: str
    is_partition: bool


def why_never(context: DeltaContext) -> str | None:
    if why := data_expiry.why_off(context, EXPIRY):
        return why
    properties = context.snapshot.configuration
    if properties.get(APPEND_ONLY, "").lower() == "true":
        return f"the table's property {APPEND_ONLY} is true: Delta lets nobody delete its rows"
    if properties.get(CHANGE_FEED, "").lower() == "true" and not context.values[INTO_FEED]:
        return (
            f"the table's property {CHANGE_FEED} is true, and readers of the feed would see the deletions: if they are"
            f" to, set {INTO_FEED.key}=true for this table"
        )
    try:
        column_of(context.snapshot, context.values[EXPIRY.column])
    except Invalid as error:
        return str(error)
    return None


def column_of(snapshot: DeltaSnapshot, name: str) -> AgeColumn:
    """By its exact name, at the top of the schema. Raises Invalid if rows cannot grow old by it."""
    found = next((one for one in snapshot.schema if one.get("name") == name), None)
    if found is None:
        raise Invalid(f"{EXPIRY.column.key} is {name!r}, and the table has no such column at the top of its schema")
    kind, is_partition = found.get("type"), name in snapshot.partition_columns
    if kind not in TYPES:
        raise Invalid(
            f"{name} has the type {kind if isinstance(kind, str) else 'a nested type'}: rows grow old by"
            f" {', '.join(TYPES)} only"
        )
    if is_partition and kind != "date":
        raise Invalid(
            f"{name} is a partition column of type {kind}, whose values are in the time zone of whoever wrote them:"
            " of partition columns, rows grow old by dates only"
        )
    physical = (found.get("metadata") or {}).get(PHYSICAL) or name
    return AgeColumn(name, str(physical), str(kind), is_partition)


def decide(context: DeltaContext) -> Need | Skip:
    snapshot = context.snapshot
    column = column_of(snapshot, context.values[EXPIRY.column])
    cutoff = data_expiry.cutoff_of(context, EXPIRY, has_zone=column.type == "timestamp")
    need = data_expiry.decide_expiry(context, EXPIRY, find_expired(snapshot, column, cutoff))
    if isinstance(need, Skip):
        return need
    return Need(reason=need.reason, bytes=need.bytes, parameters=data_expiry.expiry_parameters(column.name, cutoff))


def find_expired(snapshot: DeltaSnapshot, column: AgeColumn, cutoff: datetime) -> DataExpiry:
    return data_expiry.expiry_of(ranges_of(snapshot, column), cutoff)


def ranges_of(snapshot: DeltaSnapshot, column: AgeColumn) -> Iterator[FileRange]:
    """By partition values; by statistics, which are read for that alone, where the column is no partition column."""
    if column.is_partition:
        for file in snapshot.files.values():
            yield FileRange(file.size, *span_of(dict(file.partition).get(column.physical), "date"))
        return
    known = {path: text for path, text in statistics(snapshot) if path in snapshot.files}
    for file in snapshot.files.values():
        yield FileRange(file.size, *span_within(file, known.get(file.path), column))


def statistics(snapshot: DeltaSnapshot) -> Iterator[tuple[str, str | None]]:
    """By path, in the order of commits: the last one counts."""
    log = snapshot.log
    if log.start is not None:
        yield from checkpoint_files.statistics(log, log.start)
    for _, commit in log.commits(log.tail):
        for action in commit:
            if add := action.get("add"):
                yield add["path"], add.get("stats")


def span_within(file: LiveFile, text: str | None, column: AgeColumn) -> tuple[int | None, int | None]:
    """A deletion vector leaves the bounds as they were: the newest row is no younger, but the oldest may be gone."""
    found = parse_json(text or "{}", f"the statistics of {file.path}")
    bounds: Mapping[str, Any] = found if isinstance(found, dict) else {}
    lower, upper, nulls = (value_of(bounds.get(key), column) for key in ("minValues", "maxValues", "nullCount"))
    oldest, _ = span_of(lower, column.type)
    _, newest = span_of(upper, column.type)
    return None if file.has_vector else oldest, newest if nulls == 0 else None


def value_of(values: Any, column: AgeColumn) -> Any:
    return values.get(column.physical) if isinstance(values, dict) else None


def span_of(value: Any, kind: str) -> tuple[int | None, int | None]:
    """The first and the last microsecond of a day, or of a timestamp, which statistics cut to its millisecond."""
    try:
        if kind == "date":
            day = (date.fromisoformat(value) - EPOCH.date()).days * DAY
            return day, day + DAY - 1
        moment = datetime.fromisoformat(value)
        at = (moment.replace(tzinfo=moment.tzinfo or timezone.utc) - EPOCH) // timedelta(microseconds=1)
        return at, at + 999
    except (OverflowError, TypeError, ValueError):  # no value, or of a year that no calendar has
        return None, None


def verify(effect: DeltaEffect) -> Verdict:
    """The commit with the tag, after which no file is left with nothing but old rows, unless a writer added it."""
    snapshot, before = effect.snapshot, version_before(effect.parameters)
    if snapshot.version < before:
        return is_older(effect)
    commits = tagged(snapshot, effect.parameters)
    if not commits and effect.result.get(NOTHING) is True:
        return done(f"nothing to do: no row is older than {cutoff_text(effect)}", changed=False)
    if not commits:
        return not_done(f"no commit of this operation in the versions {before + 1} to {snapshot.version}")
    left, versions = files_left(effect), ", ".join(str(version) for version, _ in commits)
    if left and commits[-1][0] == snapshot.version:
        return not_done(f"{left} files with rows before {cutoff_text(effect)} only are still in version {versions}")
    counted = count_rewrite(action for _, commit in commits for action in commit)
    rows = rows_deleted(effect, commits, counted.pop("rows_in") - counted.pop("rows_out"))
    removed = kit.work_numbers(files_removed=counted["files_removed"], bytes_rewritten=counted["bytes_added"])
    late = f"; {left} files with such rows came later" if left else ""
    reason = f"version {versions}: {rows} rows before {cutoff_text(effect)} were deleted{late}"
    return done(reason, numbers(effect, commits, {**counted, **removed, "deleted_rows": rows}))


def rows_deleted(effect: DeltaEffect, commits: Sequence[tuple[int, Commit]], by_files: int) -> int:
    """As Delta counted, else the job: a file that was rewritten may have left the log without its statistics."""
    metrics = [str((info_of(commit).get("operationMetrics") or {}).get("numDeletedRows")) for _, commit in commits]
    if all(one.isdigit() for one in metrics):
        return sum(int(one) for one in metrics)
    counted = effect.result.get("deleted_rows")
    return counted if isinstance(counted, int) else max(by_files, 0)


def files_left(effect: DeltaEffect) -> int:
    """How many live files have nothing but rows before the cutoff; none, if the column is gone meanwhile."""
    cutoff = effect.parameters.get("cutoff")
    try:
        column = column_of(effect.snapshot, str(effect.parameters.get("column")))
    except Invalid:
        return 0
    return find_expired(effect.snapshot, column, moment_of(cutoff)).whole.files if isinstance(cutoff, int) else 0


def cutoff_text(effect: DeltaEffect) -> str:
    cutoff = effect.parameters.get("cutoff")
    return f"{moment_of(cutoff):%Y-%m-%d}" if isinstance(cutoff, int) else "the cutoff"


# Rows grow old with time alone.
EXPIRE_DATA = kit.ActionDefinition(
    name=Action.register("expire-data"), strategy=at_fixed_rate(timedelta(days=1)), settings=(*EXPIRY, INTO_FEED),
    impossible=why_never, decide=decide, not_now=leaves_room, verify=verify, has_dry_run=True, is_optional=True,
)  # fmt: skip
