# SPDX-License-Identifier: Apache-2.0
"""The settings of Paimon tables: keys, defaults, and floors that neither tables nor requests can lower.

Each may be set for all tables (properties of the plugin) or for one (its properties), except floors: plugin only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakehand.spi import Action, Invalid, Json, TableConfig

COMPACT = Action.register("compact")
EXPIRE = Action.register("expire-snapshots")
ORPHANS = Action.register("remove-orphans")

AUTO, MINOR, FULL, SORT = "auto", "minor", "full", "sort"
STRATEGIES = (AUTO, MINOR, FULL, SORT)
STRATEGY = "paimon.compact.strategy"
MIN_FILES = "paimon.compact.min-files"
SORTED_RUNS = "paimon.compact.sorted-runs"
DRIVER_BYTES = "paimon.compact.driver-bytes"  # a minor compaction by key runs in the driver: no more than this
ORDER_COLUMNS = "paimon.compact.order-columns"
ORDER_STRATEGY = "paimon.compact.order-strategy"
ORDER_STRATEGIES = ("zorder", "hilbert", "order")
UNSORTED_SHARE = "paimon.compact.unsorted-share"
BESIDE_WRITER = "paimon.compact.beside-writer"
BESIDE_ROW_CHANGES = "paimon.compact.beside-row-changes"

MAX_AGE = "paimon.expire-snapshots.max-age"  # seconds
RETAIN_LAST = "paimon.expire-snapshots.retain-last"
EXPIRE_AT_LEAST = "paimon.expire-snapshots.at-least"
AGE_FLOOR = "paimon.expire-snapshots.age-floor"
RETAIN_FLOOR = "paimon.expire-snapshots.retain-floor"

ORPHAN_AGE = "paimon.remove-orphans.min-age"  # seconds
ORPHANS_AT_LEAST = "paimon.remove-orphans.at-least"
LOOK_FILES = "paimon.remove-orphans.look-files"  # a decision compares no more files and snapshots than this
ORPHAN_AGE_FLOOR = "paimon.remove-orphans.age-floor"

# What a request may say: nothing of it deletes more, and nothing is passed on to Paimon as it is.
OPTIONS: Mapping[Action, frozenset[str]] = {
    COMPACT: frozenset({"strategy", "min_files", "order_columns", "order_strategy"}),
    EXPIRE: frozenset({"max_age", "retain_last"}),
    ORPHANS: frozenset({"min_age"}),
}

DAY = timedelta(days=1)
LEAST_AGE = timedelta(hours=1)  # of snapshots; nothing lowers it
LEAST_ORPHAN_AGE = timedelta(days=3)
_COLUMNS = re.compile(r"\w+(,\w+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the operator of the service decides, for all tables."""

    snapshot_age: timedelta = LEAST_AGE
    snapshots: int = 1
    orphan_age: timedelta = LEAST_ORPHAN_AGE


def floors_of(properties: Mapping[str, str]) -> Floors:
    try:
        age = timedelta(seconds=float(properties.get(AGE_FLOOR, 0)))
        orphan_age = timedelta(seconds=float(properties.get(ORPHAN_AGE_FLOOR, 0)))
        kept = int(properties.get(RETAIN_FLOOR, 1))
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{AGE_FLOOR}, {RETAIN_FLOOR} and {ORPHAN_AGE_FLOOR} are numbers: {error}") from error
    return Floors(
        snapshot_age=max(age, LEAST_AGE), snapshots=max(kept, 1), orphan_age=max(orphan_age, LEAST_ORPHAN_AGE)
    )


def switched_off(config: TableConfig, action: Action) -> str | None:
    key = f"paimon.{action}.enabled"
    return None if config.flag(key, True) else f"{key} is false (from {config.origin(key)})"


def strategy(config: TableConfig, asked: Mapping[str, Json]) -> str:
    word = str(asked.get("strategy") or config.text(STRATEGY, AUTO)).lower()
    if word not in STRATEGIES:
        raise Invalid(f"{word!r} is no strategy of a compaction: one of {', '.join(STRATEGIES)}")
    return word


def min_files(config: TableConfig, asked: Mapping[str, Json]) -> int:
    return max(number(asked.get("min_files")) or config.number(MIN_FILES, 5), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    strategy: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.strategy}({','.join(self.columns)})"


def order(config: TableConfig, asked: Mapping[str, Json], known: Sequence[str], partition: Sequence[str]) -> Order:
    columns = str(asked.get("order_columns") or config.text(ORDER_COLUMNS)).replace(" ", "")
    word = str(asked.get("order_strategy") or config.text(ORDER_STRATEGY, "zorder")).lower()
    if word not in ORDER_STRATEGIES or not _COLUMNS.fullmatch(columns):
        raise Invalid(
            f"cannot sort by {columns!r} with {word!r}: {ORDER_COLUMNS} names columns, and {ORDER_STRATEGY} is one of "
            f"{', '.join(ORDER_STRATEGIES)}"
        )
    chosen = tuple(columns.split(","))
    if wrong := [one for one in chosen if one not in known or one in partition]:
        raise Invalid(f"cannot sort by {wrong[0]!r}: it is no column of the table, or the partition's own")
    return Order(strategy=word, columns=chosen)


def snapshot_age(config: TableConfig, floors: Floors, asked: Mapping[str, Json], owner: timedelta) -> timedelta:
    """The longest that anyone wants: a request and the table's own option keep more, never less."""
    wished = timedelta(seconds=number(asked.get("max_age")) or 0)
    return max(config.duration(MAX_AGE, DAY), floors.snapshot_age, wished, owner)


def retain_last(config: TableConfig, floors: Floors, asked: Mapping[str, Json], owner: int) -> int:
    wished = number(asked.get("retain_last")) or 0
    return max(config.number(RETAIN_LAST, 10), floors.snapshots, wished, owner)


def orphan_age(config: TableConfig, floors: Floors, asked: Mapping[str, Json]) -> timedelta:
    wished = timedelta(seconds=number(asked.get("min_age")) or 0)
    return max(config.duration(ORPHAN_AGE, LEAST_ORPHAN_AGE), floors.orphan_age, wished)


def options_of(action: Action, parameters: Mapping[str, Json]) -> Mapping[str, Json]:
    """What a person asked for: ``max-age`` and ``max_age`` are the same, and other words than ours are refused."""
    given = parameters.get("options")
    asked = {str(key).replace("-", "_"): value for key, value in given.items()} if isinstance(given, Mapping) else {}
    if wrong := sorted(set(asked) - OPTIONS[action]):
        raise Invalid(f"{wrong[0]!r} is no option of {action}: one of {', '.join(sorted(OPTIONS[action]))}")
    return asked


def number(value: Json) -> int | None:
    """A whole number that is not negative and that a clock can bear; anything else is as if it were not said."""
    text = str(value)
    return int(text) if not isinstance(value, bool) and text.isascii() and text.isdigit() and len(text) < 10 else None
