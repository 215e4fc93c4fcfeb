# SPDX-License-Identifier: Apache-2.0
"""The settings of Paimon tables."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Invalid, kit

COMPACT = Action.register("compact")
EXPIRE = Action.register("expire-snapshots")
ORPHANS = Action.register("remove-orphans")
EXPIRE_PARTITIONS = Action.register("expire-partitions")
EXPIRE_TAGS = Action.register("expire-tags")

T = TypeVar("T")
AUTO, MINOR, FULL, SORT = "auto", "minor", "full", "sort"
PaimonContext = kit.DecisionContext[PaimonSnapshot]
REQUEST = kit.SetBy.REQUEST
DAY = timedelta(days=1)
_COLUMN = re.compile(r"\w+")

STRATEGY = kit.choice_setting("paimon.compact.strategy", "see above", AUTO, MINOR, FULL, SORT, set_by=REQUEST)
MIN_FILES = kit.count_setting(
    "paimon.compact.min-files", "small files of a partition or bucket that make packing worth it", 5, floor=2,
    set_by=REQUEST,
)  # fmt: skip
SORTED_RUNS = kit.count_setting(
    "paimon.compact.sorted-runs", "sorted runs of a bucket that make merging worth it", floor=2,
    default_text="the table's trigger, 5",
)  # fmt: skip
DRIVER_BYTES = kit.bytes_setting(
    "paimon.compact.driver-bytes", "`auto` merges in the driver only while no more than this is to be merged",
    256 << 20,
)  # fmt: skip
ORDER_COLUMNS = kit.columns_setting("paimon.compact.order-columns", "columns to sort by", set_by=REQUEST)
ORDER_STRATEGY = kit.choice_setting(
    "paimon.compact.order-strategy", "how to sort", "zorder", "hilbert", "order", set_by=REQUEST
)
UNSORTED_SHARE = kit.share_setting(
    "paimon.compact.unsorted-share", "share of unsorted bytes that makes sorting worth it", 0.2
)
BESIDE_WRITER = kit.flag_setting("paimon.compact.beside-writer", "compact although a writer does, too", False)
BESIDE_ROW_CHANGES = kit.flag_setting(
    "paimon.compact.beside-row-changes",
    "compact a table without a key although its rows are changed in place: see [Beside writers](#beside-writers)",
    False,
)
MAX_AGE = kit.retention_setting(
    "paimon.expire-snapshots.max-age", "snapshots are kept this long; the table's own option counts when it is longer",
    DAY, timedelta(hours=1), floor_replaces=("paimon.expire-snapshots.age-floor",),
)  # fmt: skip
RETAIN_LAST = kit.retained_count_setting(
    "paimon.expire-snapshots.retain-last", "newest snapshots that are kept whatever their age", 10, 1,
    floor_replaces=("paimon.expire-snapshots.retain-floor",),
)  # fmt: skip
EXPIRE_AT_LEAST = kit.count_setting(
    "paimon.expire-snapshots.at-least", "snapshots past their age that make it worth it", 10, floor=1
)
OLDER_THAN = kit.retention_setting(
    "paimon.remove-orphans.older-than", "files that were written since are left alone", 3 * DAY, 3 * DAY,
    replaces=("paimon.remove-orphans.min-age",), floor_replaces=("paimon.remove-orphans.age-floor",),
)  # fmt: skip
ORPHANS_AT_LEAST = kit.count_setting("paimon.remove-orphans.at-least", "orphans that make it worth it", 1, floor=1)
MOST_FILES = kit.count_setting(
    "paimon.remove-orphans.look-files", "files and snapshots that a decision compares at most", 20_000
)
PARTITION_AGE = kit.duration_setting(
    "paimon.expire-partitions.older-than", "partitions are kept this long; the table's own option counts when it is"
    " longer", default_text="the table's `partition.expiration-time`, else for ever", floor=7 * DAY,
    is_retention=True, set_by=REQUEST,
)  # fmt: skip
MAX_PARTITIONS = kit.count_setting(
    "paimon.expire-partitions.max-partitions", "partitions that one run drops, oldest first", 100, floor=1,
    set_by=REQUEST,
)  # fmt: skip
TIME_FORMATTER = kit.text_setting(
    "paimon.expire-partitions.timestamp-formatter", "how to read a partition's time, for instance `yyyyMMdd`",
    default_text="the table's `partition.timestamp-formatter`, else `yyyy-MM-dd` with or without a time",
)  # fmt: skip
TIME_PATTERN = kit.text_setting(
    "paimon.expire-partitions.timestamp-pattern", "which columns make the time, for instance `$day $hour:00:00`",
    default_text="the table's `partition.timestamp-pattern`, else the first partition column",
)  # fmt: skip
TAG_GRACE = kit.retention_setting(
    "paimon.expire-tags.grace", "a tag stays this long after its own time is over", DAY, DAY
)
RETAIN_AUTO = kit.count_setting(
    "paimon.expire-tags.retain-auto", "newest tags of `tag.automatic-creation` that are kept; others without a time of"
    " their own are deleted", default_text="none is deleted by number", floor=7, is_retention=True, set_by=REQUEST,
)  # fmt: skip
MAX_TAGS = kit.count_setting("paimon.expire-tags.max-tags", "tags that one run deletes", 100, floor=1, set_by=REQUEST)
ONLY_WRITER = kit.only_writer_setting("paimon")
ACTIONS = (COMPACT, EXPIRE, ORPHANS, EXPIRE_PARTITIONS, EXPIRE_TAGS)
ROWS = kit.rows_in(globals())


def set_retention(context: PaimonContext, row: kit.SettingRow[T]) -> T | None:
    """What counts, if the operator or the table set any: a request alone switches no deletion on."""
    return context.values.get(row) if row.key in context.values.config.settings else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    strategy: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.strategy}({','.join(self.columns)})"


def order(context: PaimonContext) -> SortOrder:
    columns, schema = context.values[ORDER_COLUMNS], context.snapshot.schema
    if not columns or not all(_COLUMN.fullmatch(one) for one in columns):
        raise Invalid(f"cannot sort by {','.join(columns)!r}: {ORDER_COLUMNS.key} names columns")
    if wrong := [one for one in columns if one not in schema.columns or one in schema.partition_keys]:
        raise Invalid(f"cannot sort by {wrong[0]!r}: it is no column of the table, or the partition's own")
    return SortOrder(strategy=context.values[ORDER_STRATEGY], columns=columns)
