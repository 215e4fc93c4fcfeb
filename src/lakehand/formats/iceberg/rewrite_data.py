# SPDX-License-Identifier: Apache-2.0
"""Rewrites small data files, and those that a reader must merge with many deletes. What was just rewritten never is
again."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from lakehand.domain.cached_property import cached_property
from lakehand.formats.iceberg.context import IcebergContext
from lakehand.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile
from lakehand.formats.iceberg.rewrites import (
    ON_COMMIT,
    backlog,
    fewest,
    group_by_partition,
    is_worth,
    leaves_room,
    rewrite_all,
    rewrite_all_setting,
    verify_rewrite,
)
from lakehand.formats.iceberg.snapshot import SMALL_SHARE, IcebergSnapshot
from lakehand.spi import Action, Invalid, Json, Skip, amount, kit
from lakehand.spi.kit import CHANGED, PAIR, NamedPartitions, Need, choose

MOST_PARTITIONS = 200  # partitions that one run names
REQUEST = kit.SetBy.REQUEST
_COLUMN = re.compile(r"[\w. -]{1,200}")
_ORDER = re.compile(
    r"(?P<column>[\w. -]+?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)
TARGET = kit.bytes_setting(
    "iceberg.rewrite-data.target-bytes", "size of a full file", floor=64 * 1024, set_by=REQUEST,
    default_text="the table's `write.target-file-size-bytes`, else 512MB",
)  # fmt: skip
MIN_INPUT_FILES = kit.count_setting(
    "iceberg.rewrite-data.min-input-files", "small files in one partition that make it worth it", 5, floor=2,
    set_by=REQUEST,
)  # fmt: skip
TRIGGER = kit.trigger_settings("iceberg.rewrite-data", "the oldest small file that could be merged with another")
DELETE_FILES = kit.count_setting(
    "iceberg.rewrite-data.delete-files", "a file with so many delete files is rewritten", 10, floor=1, set_by=REQUEST
)
DELETE_RATIO = kit.share_setting(
    "iceberg.rewrite-data.delete-ratio", "and one that has lost this share of its rows", 0.3, floor=0.01, set_by=REQUEST
)
MAX_FILES = kit.count_setting(
    "iceberg.rewrite-data.max-files", "files that one run rewrites", 10_000, floor=2, set_by=REQUEST
)
STRATEGY = kit.choice_setting(
    "iceberg.rewrite-data.strategy", "how rows are laid out", "bin-pack", "sort", "z-order", set_by=REQUEST
)
SORT_ORDER = kit.text_setting(
    "iceberg.rewrite-data.sort-order", "for `sort`: `day desc, id asc nulls last`", set_by=REQUEST,
    default_text="the table's own",
)  # fmt: skip
Z_ORDER = kit.columns_setting("iceberg.rewrite-data.z-order-columns", "for `z-order`: columns", set_by=REQUEST)
REWRITE_ALL = rewrite_all_setting("rewrite-data")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
PLAIN = frozenset({"identity", "bucket", "truncate"})  # their values are named as they are
TRANSFORMS = PLAIN | {"year", "month", "day", "hour"}


def target_bytes(context: IcebergContext) -> int:
    return context.values.get(TARGET) or context.snapshot.target_bytes


def small_bytes(context: IcebergContext) -> int:
    return int(target_bytes(context) * SMALL_SHARE)


def decide(context: IcebergContext) -> Need | Skip:
    files, limit, trigger = context.snapshot.data_files, small_bytes(context), context.trigger(TRIGGER)
    heavy = heavy_files(context)
    groups = groups_of(context, heavy)
    waiting = backlogs(context, groups)
    worth = {
        partition: group
        for partition, group in groups.items()
        if trigger.is_due(waiting[partition]) or any(file.path in heavy for file in group)
    }
    text = f"{sum(file.size < limit for file in files)} of {len(files)} files are under {amount(limit)}"
    text += describe_heavy(context, heavy)
    if not worth:
        most = max((len(group) for group in groups.values()), default=0)
        least = trigger.least(context.values[MIN_INPUT_FILES], PAIR)
        return trigger.skip(f"{text}; at most {most} in one partition, {least} are worth it", waiting.values())
    chosen = [file for group in worth.values() for file in group]
    size, partitions = sum(file.size for file in chosen), {file.group for file in files}
    where = f"{len(chosen)} files in {len(worth)} of {max(len(partitions), 1)} partitions"
    by_age = trigger.why(waiting.values())
    counts = {partition: len(group) for partition, group in worth.items()}
    first, parameters = choose_first(context, counts, only_these=bool(by_age))
    return Need(reason=f"{text}: {amount(size)} to rewrite, {where}{by_age}{first}", parameters=parameters, bytes=size)


def groups_of(context: IcebergContext, heavy: Collection[str]) -> Mapping[Hashable, list[ContentFile]]:
    """The files of each partition that a rewrite would take."""
    files, limit = context.snapshot.data_files, small_bytes(context)
    return group_by_partition((f for f in files if f.size < limit or f.path in heavy), context.snapshot.spec)


def backlogs(
    context: IcebergContext, groups: Mapping[Hashable, Sequence[ContentFile]]
) -> Mapping[Hashable, kit.Backlog]:
    least, target, has_age = context.values[MIN_INPUT_FILES], target_bytes(context), context.trigger(TRIGGER).has_age
    return {
        partition: backlog(context, group, is_worth(group, least, target), has_age and is_worth(group, PAIR, target))
        for partition, group in groups.items()
    }


def least_files(context: IcebergContext) -> int:
    trigger, least = context.trigger(TRIGGER), context.values[MIN_INPUT_FILES]
    if not trigger.has_age:
        return least
    return fewest(trigger, backlogs(context, groups_of(context, heavy_files(context))).values(), least)


def choose_first(
    context: IcebergContext, files: Mapping[Hashable, int], *, only_these: bool
) -> tuple[str, dict[str, Json]]:
    """Where one run cannot rewrite all: the partitions to begin with, if events named some. Else Iceberg chooses.

    ``only_these``: Iceberg would take pairs of files in other partitions, too, before their time.
    """
    changed, names = list(context.changed_partitions), PartitionNames(context.snapshot)
    named, most = NamedPartitions(changed), context.values[MAX_FILES]
    conditions = {partition: names.condition(partition) for partition in files} if changed or only_these else {}
    kept: dict[str, Json] = {CHANGED: changed} if changed else {}
    fits = sum(files.values()) <= most and not only_these
    if fits or not conditions or None in conditions.values():
        return "", kept
    ordered = dict(sorted(files.items(), key=lambda one: -one[1]))
    first = {partition for partition in ordered if named.hold(names.values(partition))}
    choice = choose(ordered, first, most=most, parts=MOST_PARTITIONS)
    only: list[Json] = [conditions[partition] for partition in choice.sizes]
    return (choice.text, {**kept, "only": only}) if choice.named or only_these else ("", kept)


def options(context: IcebergContext) -> dict[str, Json]:
    """The thresholds of the decision, as Iceberg's own planner knows them."""
    values = context.values
    known = {
        "target-file-size-bytes": str(target_bytes(context)),
        "min-file-size-bytes": str(small_bytes(context)),
        "min-input-files": str(least_files(context)),
        "delete-file-threshold": str(values[DELETE_FILES]),
        "delete-ratio-threshold": str(values[DELETE_RATIO]),
        "max-files-to-rewrite": str(values[MAX_FILES]),
        "remove-dangling-deletes": "true",
        "use-starting-sequence-number": "true",
        **rewrite_all(context, REWRITE_ALL),
    }
    return {"rewrite": known, "order": order(values)}


def order(values: kit.Values) -> dict[str, Json]:
    """How rows are laid out: ``{}`` as they come, or columns to sort or interleave by."""
    columns = values[Z_ORDER]
    if values[STRATEGY] == "sort":
        return {"sort": [sort_column(part) for part in values[SORT_ORDER].split(",") if part.strip()]}
    if values[STRATEGY] == "z-order":
        if not columns or not all(_COLUMN.fullmatch(name) for name in columns):
            raise Invalid(f"{Z_ORDER.key} is {','.join(columns)!r}: use {Z_ORDER.hint}")
        return {"z_order": list(columns)}
    return {}


def sort_column(text: str) -> dict[str, Json]:
    found = _ORDER.fullmatch(text.strip())
    if not found:
        raise Invalid(
            f"{SORT_ORDER.key}: {text.strip()!r} is not a column with asc or desc, and nulls first or nulls last"
        )
    is_descending = (found["way"] or "asc").lower() == "desc"
    nulls = (found["nulls"] or ("last" if is_descending else "first")).lower()
    return {"column": found["column"].strip(), "descending": is_descending, "nulls_first": nulls == "first"}


def describe_heavy(context: IcebergContext, heavy: Collection[str]) -> str:
    if not heavy:
        return ""
    count, ratio = context.values[DELETE_FILES], context.values[DELETE_RATIO]
    return f"; {len(heavy)} have {count} delete files or {ratio:.0%} of their rows deleted"


def heavy_files(context: IcebergContext) -> frozenset[str]:
    """Paths of data files that a reader must merge with too many deletes."""
    if not context.snapshot.delete_files:
        return frozenset()
    deletes = DeleteIndex(context.snapshot)
    count, ratio = context.values[DELETE_FILES], context.values[DELETE_RATIO]
    files = context.snapshot.data_files
    return frozenset(file.path for file in files if deletes.count(file) >= count or deletes.ratio(file) >= ratio)


class DeleteIndex:
    """Which delete files apply to which data files, by their partitions and sequence numbers."""

    def __init__(self, snapshot: IcebergSnapshot) -> None:
        self._own: dict[str, list[ContentFile]] = defaultdict(list)
        positions: dict[Hashable, list[int]] = defaultdict(list)
        equalities: dict[Hashable, list[int]] = defaultdict(list)
        for file in snapshot.delete_files:
            if file.reference is not None:
                self._own[file.reference].append(file)
            elif file.content == EQUALITY_DELETES:
                equalities[file.group if len(file.group) > 1 else None].append(file.sequence)
            else:
                positions[file.group].append(file.sequence)
        self._positions = {group: sorted(found) for group, found in positions.items()}
        self._equalities = {group: sorted(found) for group, found in equalities.items()}

    def count(self, file: ContentFile) -> int:
        own = len(self._own.get(file.path, ()))
        shared = self._positions.get(file.group, [])
        later = [self._equalities.get(group, []) for group in (file.group, None)]
        return (
            own
            + len(shared) - bisect_left(shared, file.sequence)
            + sum(len(found) - bisect_right(found, file.sequence) for found in later)
        )  # fmt: skip

    def ratio(self, file: ContentFile) -> float:
        deleted = sum(delete.rows for delete in self._own.get(file.path, ()))
        return min(deleted / file.rows, 1.0) if file.rows else 0.0


REWRITE_DATA = kit.ActionDefinition(
    name=Action.register("rewrite-data"), strategy=ON_COMMIT, decide=decide, limits=options, not_now=leaves_room,
    verify=verify_rewrite,
    settings=(
        TARGET, MIN_INPUT_FILES, *TRIGGER, DELETE_FILES, DELETE_RATIO, MAX_FILES, STRATEGY, SORT_ORDER, Z_ORDER,
        REWRITE_ALL,
    ),
)  # fmt: skip


class PartitionField(NamedTuple):
    name: str
    column: str
    transform: str  # such as bucket[16]

    @property
    def kind(self) -> str:
        return self.transform.partition("[")[0]


class PartitionNames:
    """Partitions of the table's current spec by name: as events name them, and as a rewrite filters by them."""

    def __init__(self, snapshot: IcebergSnapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def fields(self) -> Sequence[PartitionField]:
        """Empty if one of them cannot be named: it has another transform, or a column within a struct."""
        metadata = self._snapshot.metadata
        columns = {one["id"]: str(one["name"]) for one in schema_of(metadata).get("fields") or ()}
        found = [
            PartitionField(str(one["name"]), columns.get(one["source-id"], ""), str(one["transform"]))
            for one in spec_of(metadata, self._snapshot.spec).get("fields") or ()
        ]
        return found if all(one.column and one.kind in TRANSFORMS for one in found) else ()

    def values(self, group: Hashable) -> Mapping[str, str | None]:
        """The values of a partition by the names of its fields, as Iceberg shows them; empty if there is no text."""
        parts = self.parts(group)
        shown = {field.name: text_of(field.kind, value) for field, value in parts}
        return {} if any(text == "" for text in shown.values()) else shown

    def condition(self, group: Hashable) -> list[Json] | None:
        """Columns, transforms and values that select just this partition; None if they cannot be written down."""
        parts = self.parts(group)
        if not parts or any(text_of(field.kind, value) == "" for field, value in parts):
            return None
        return [[field.column, field.transform, literal_of(value)] for field, value in parts]

    def parts(self, group: Hashable) -> Sequence[tuple[PartitionField, Any]]:
        if not isinstance(group, tuple) or len(group) != len(self.fields) + 1:
            return ()
        return list(zip(self.fields, group[1:], strict=True))


def schema_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    current = metadata.get("current-schema-id")
    found = next((one for one in metadata.get("schemas") or () if one.get("schema-id") == current), None)
    return found or metadata.get("schema") or {}


def spec_of(metadata: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    found = next((one for one in metadata.get("partition-specs") or () if one.get("spec-id") == number), None)
    return found or {}


SHOWN: Mapping[str, Callable[[int], str]] = {
    "year": lambda value: f"{1970 + value}",
    "month": lambda value: f"{1970 + value // 12}-{value % 12 + 1:02d}",
    "day": lambda value: f"{EPOCH + timedelta(days=value):%Y-%m-%d}",
    "hour": lambda value: f"{EPOCH + timedelta(hours=value):%Y-%m-%d-%H}",
}


def text_of(kind: str, value: Any) -> str | None:
    """As Iceberg names it in a path; None for no value, empty for what has no plain text."""
    if value is None:
        return None
    if kind in PLAIN or isinstance(value, date):
        return plain_text(value)
    return SHOWN[kind](value) if isinstance(value, int) else ""


def plain_text(value: Any) -> str:
    """Empty for types whose texts depend on who writes them, such as times."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int | str) else ""


def literal_of(value: Any) -> Json:
    literal: Json = value.isoformat() if isinstance(value, date) else value
    return literal
