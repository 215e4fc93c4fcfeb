# SPDX-License-Identifier: Apache-2.0
"""The settings of Paimon tables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Invalid
from lakehand.spi.kit import (
    DecisionContext,
    FormatSettings,
    SetBy,
    Values,
    bytes_setting,
    choice_setting,
    columns_setting,
    count_setting,
    duration_setting,
    flag_setting,
    share_setting,
    switches,
)

COMPACT = Action.register("compact")
EXPIRE = Action.register("expire-snapshots")
ORPHANS = Action.register("remove-orphans")

AUTO, MINOR, FULL, SORT = "auto", "minor", "full", "sort"
DAY = timedelta(days=1)

STRATEGY = choice_setting("paimon.compact.strategy", "see above", AUTO, MINOR, FULL, SORT, set_by=SetBy.REQUEST)
MIN_FILES = count_setting(
    "paimon.compact.min-files", "small files of a partition or bucket that make packing worth it", 5, floor=2,
    set_by=SetBy.REQUEST,
)  # fmt: skip
SORTED_RUNS = count_setting(
    "paimon.compact.sorted-runs", "sorted runs of a bucket that make merging worth it", floor=2,
    default_text="the table's trigger, 5",
)  # fmt: skip
DRIVER_BYTES = bytes_setting(
    "paimon.compact.driver-bytes", "`auto` merges in the driver only while no more than this is to be merged",
    256 << 20,
)  # fmt: skip
ORDER_COLUMNS = columns_setting("paimon.compact.order-columns", "columns to sort by", set_by=SetBy.REQUEST)
ORDER_STRATEGY = choice_setting(
    "paimon.compact.order-strategy", "how to sort", "zorder", "hilbert", "order", set_by=SetBy.REQUEST
)
UNSORTED_SHARE = share_setting(
    "paimon.compact.unsorted-share", "share of unsorted bytes that makes sorting worth it", 0.2
)
BESIDE_WRITER = flag_setting("paimon.compact.beside-writer", "compact although a writer does, too", False)
BESIDE_ROW_CHANGES = flag_setting(
    "paimon.compact.beside-row-changes",
    "compact a table without a key although its rows are changed in place: see [Beside writers](#beside-writers)",
    False,
)
MAX_AGE = duration_setting(
    "paimon.expire-snapshots.max-age", "snapshots are kept this long; the table's own option counts when it is longer",
    DAY, floor=timedelta(hours=1), is_retention=True, set_by=SetBy.REQUEST,
    floor_replaces=("paimon.expire-snapshots.age-floor",),
)  # fmt: skip
RETAIN_LAST = count_setting(
    "paimon.expire-snapshots.retain-last", "newest snapshots that are kept whatever their age", 10, floor=1,
    is_retention=True, set_by=SetBy.REQUEST, floor_replaces=("paimon.expire-snapshots.retain-floor",),
)  # fmt: skip
EXPIRE_AT_LEAST = count_setting(
    "paimon.expire-snapshots.at-least", "snapshots past their age that make it worth it", 10, floor=1
)
OLDER_THAN = duration_setting(
    "paimon.remove-orphans.older-than", "files that were written since are left alone", 3 * DAY, floor=3 * DAY,
    is_retention=True, set_by=SetBy.REQUEST, replaces=("paimon.remove-orphans.min-age",),
    floor_replaces=("paimon.remove-orphans.age-floor",),
)  # fmt: skip
ORPHANS_AT_LEAST = count_setting("paimon.remove-orphans.at-least", "orphans that make it worth it", 1, floor=1)
LOOK_FILES = count_setting(
    "paimon.remove-orphans.look-files", "files and snapshots that a decision compares at most", 20_000
)

PaimonContext = DecisionContext[PaimonSnapshot]
_COLUMN = re.compile(r"\w+")


def paimon_settings() -> FormatSettings:
    return FormatSettings(
        *switches("paimon", (COMPACT, EXPIRE, ORPHANS)), STRATEGY, MIN_FILES, SORTED_RUNS, DRIVER_BYTES, ORDER_COLUMNS,
        ORDER_STRATEGY, UNSORTED_SHARE, BESIDE_WRITER, BESIDE_ROW_CHANGES, MAX_AGE, RETAIN_LAST, EXPIRE_AT_LEAST,
        OLDER_THAN, ORPHANS_AT_LEAST, LOOK_FILES,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    strategy: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.strategy}({','.join(self.columns)})"


def order(values: Values, known: Sequence[str], partition: Sequence[str]) -> SortOrder:
    columns = values[ORDER_COLUMNS]
    if not columns or not all(_COLUMN.fullmatch(one) for one in columns):
        raise Invalid(f"cannot sort by {','.join(columns)!r}: {ORDER_COLUMNS.key} names columns")
    if wrong := [one for one in columns if one not in known or one in partition]:
        raise Invalid(f"cannot sort by {wrong[0]!r}: it is no column of the table, or the partition's own")
    return SortOrder(strategy=values[ORDER_STRATEGY], columns=columns)
