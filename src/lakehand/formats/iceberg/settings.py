# SPDX-License-Identifier: Apache-2.0
"""The settings of Iceberg tables: keys, defaults, and floors that a table's properties and requests cannot lower.

Each may be set for all tables (properties of the plugin) or for one (its properties), except floors: plugin only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakehand.formats.iceberg.snapshot import SMALL_SHARE, IcebergSnapshot, whole_number
from lakehand.spi import Action, Invalid, Json, TableConfig, health

TARGET = "iceberg.rewrite-data.target-bytes"  # left out: the table's write.target-file-size-bytes, or 512 MB
MIN_INPUT_FILES = "iceberg.rewrite-data.min-input-files"
DELETE_FILES = "iceberg.rewrite-data.delete-files"
DELETE_RATIO = "iceberg.rewrite-data.delete-ratio"
MAX_FILES = "iceberg.rewrite-data.max-files"
STRATEGY = "iceberg.rewrite-data.strategy"
SORT_ORDER = "iceberg.rewrite-data.sort-order"
Z_ORDER = "iceberg.rewrite-data.z-order-columns"
DELETES_MIN_INPUT_FILES = "iceberg.rewrite-position-deletes.min-input-files"
MIN_MANIFESTS = "iceberg.rewrite-manifests.min-manifests"
QUIET = "iceberg.quiet-seconds"
REST = "iceberg.rest-seconds"
MAX_AGE = "iceberg.expire-snapshots.max-age-hours"
MAX_AGE_FLOOR = "iceberg.expire-snapshots.max-age-hours-floor"
MIN_SNAPSHOTS = "iceberg.expire-snapshots.min-snapshots"
AT_LEAST = "iceberg.expire-snapshots.at-least"
FLINK_AGE = "iceberg.expire-snapshots.flink-hours"
OLDER_THAN = "iceberg.remove-orphans.older-than-hours"
OLDER_THAN_FLOOR = "iceberg.remove-orphans.older-than-hours-floor"
EVERY = "iceberg.remove-orphans.every-hours"
FLOORS = frozenset({MAX_AGE_FLOOR, OLDER_THAN_FLOOR})

# Not even the properties of the plugin go below these.
LEAST_AGE = timedelta(days=1)
LEAST_ORPHAN_AGE = timedelta(days=3)
LEAST_FLINK_AGE = timedelta(days=7)

STRATEGIES = frozenset({"bin-pack", "sort", "z-order"})
DELETES_TARGET_BYTES = 64 * health.MB
MANIFEST_TARGET_BYTES = 8 * health.MB
LEAST_TARGET = 64 * 1024

# What a request may say, by action: numbers and column names, nothing that loads a class or keeps less.
OPTIONS: Mapping[str, frozenset[str]] = {
    "rewrite-data": frozenset(
        {"target-bytes", "min-input-files", "delete-files", "delete-ratio", "max-files", "strategy", "sort-order",
         "z-order-columns", "rewrite-all"}
    ),
    "rewrite-position-deletes": frozenset({"min-input-files", "rewrite-all"}),
    "rewrite-manifests": frozenset(),
    "expire-snapshots": frozenset({"max-age-hours", "min-snapshots"}),
    "remove-orphans": frozenset({"older-than-hours"}),
}  # fmt: skip
_COLUMN = re.compile(r"[\w. -]{1,200}")
_ORDER = re.compile(
    r"(?P<column>[\w. -]+?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the operator of the service decides, for all tables."""

    max_age: timedelta = LEAST_AGE
    orphan_age: timedelta = LEAST_ORPHAN_AGE


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRules:
    """When data files are worth rewriting, and how."""

    target: int
    min_files: int
    delete_files: int
    delete_ratio: float
    max_files: int
    order: Mapping[str, Json]

    @property
    def small(self) -> int:
        return int(self.target * SMALL_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRules:
    target: int
    min_files: int
    by_file: bool  # one delete file per data file, as Spark writes them unless told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRules:
    target: int
    min_manifests: int


def floors_of(properties: Mapping[str, str]) -> Floors:
    return Floors(
        max_age=max(hours(properties, MAX_AGE_FLOOR, LEAST_AGE), LEAST_AGE),
        orphan_age=max(hours(properties, OLDER_THAN_FLOOR, LEAST_ORPHAN_AGE), LEAST_ORPHAN_AGE),
    )


def hours(properties: Mapping[str, str], key: str, default: timedelta) -> timedelta:
    try:
        return timedelta(hours=float(properties[key])) if key in properties else default
    except (ValueError, OverflowError):
        raise Invalid(f"{key} is {properties[key]!r}: a number of hours is needed") from None


def switched_off(config: TableConfig, action: Action) -> str | None:
    key = f"iceberg.{action}.enabled"
    return None if config.flag(key, True) else f"{key} is false (from {config.origin(key)})"


def data_rules(config: TableConfig, snapshot: IcebergSnapshot) -> DataRules:
    return DataRules(
        target=max(config.number(TARGET, snapshot.target_bytes), LEAST_TARGET),
        min_files=max(config.number(MIN_INPUT_FILES, 5), 2),
        delete_files=max(config.number(DELETE_FILES, 10), 1),
        delete_ratio=min(max(config.ratio(DELETE_RATIO, 0.3), 0.01), 1.0),
        max_files=max(config.number(MAX_FILES, 10_000), 2),
        order=order(config.text(STRATEGY, "bin-pack"), config.text(SORT_ORDER), config.text(Z_ORDER)),
    )


def delete_rules(config: TableConfig, snapshot: IcebergSnapshot) -> DeleteRules:
    return DeleteRules(
        target=whole_number(snapshot.properties, "write.delete.target-file-size-bytes", DELETES_TARGET_BYTES),
        min_files=max(config.number(DELETES_MIN_INPUT_FILES, 5), 2),
        by_file=snapshot.properties.get("write.delete.granularity", "file").lower() == "file" or snapshot.version > 2,
    )


def manifest_rules(config: TableConfig, snapshot: IcebergSnapshot) -> ManifestRules:
    return ManifestRules(
        target=max(whole_number(snapshot.properties, "commit.manifest.target-size-bytes", MANIFEST_TARGET_BYTES), 1),
        min_manifests=max(config.number(MIN_MANIFESTS, 25), 2),
    )


def max_age(config: TableConfig, floors: Floors) -> timedelta:
    return max(timedelta(hours=config.ratio(MAX_AGE, 120)), floors.max_age)


def flink_age(config: TableConfig) -> timedelta:
    return max(timedelta(hours=config.ratio(FLINK_AGE, 720)), LEAST_FLINK_AGE)


def min_snapshots(config: TableConfig) -> int:
    return max(config.number(MIN_SNAPSHOTS, 1), 1)


def orphan_age(config: TableConfig, floors: Floors) -> timedelta:
    return max(timedelta(hours=config.ratio(OLDER_THAN, 72)), floors.orphan_age)


def order(strategy: str, sort: str, columns: str) -> dict[str, Json]:
    """How rows are laid out: ``{}`` as they come, or columns to sort or interleave by."""
    if strategy not in STRATEGIES:
        raise Invalid(f"{STRATEGY} is {strategy!r}: say one of {', '.join(sorted(STRATEGIES))}")
    if strategy == "sort":
        return {"sort": [sort_column(part) for part in sort.split(",") if part.strip()]}
    if strategy == "z-order":
        names = [part.strip() for part in columns.split(",") if part.strip()]
        if not names or not all(_COLUMN.fullmatch(name) for name in names):
            raise Invalid(f"{Z_ORDER} is {columns!r}: names of columns are needed, with commas between them")
        return {"z_order": names}
    return {}


def sort_column(text: str) -> dict[str, Json]:
    found = _ORDER.fullmatch(text.strip())
    if not found:
        raise Invalid(f"{SORT_ORDER}: {text.strip()!r} is no column with asc or desc, and nulls first or nulls last")
    is_descending = (found["way"] or "asc").lower() == "desc"
    nulls = (found["nulls"] or ("last" if is_descending else "first")).lower()
    return {"column": found["column"].strip(), "descending": is_descending, "nulls_first": nulls == "first"}


def asked_options(action: Action, parameters: Mapping[str, Json]) -> dict[str, str]:
    """What a person asked for; a word that is not known is refused, not ignored."""
    asked = parameters.get("options")
    if not isinstance(asked, Mapping):
        return {}
    known = OPTIONS[action]
    prefix = f"iceberg.{action}."
    named = {str(key).removeprefix(prefix): value for key, value in asked.items()}
    if unknown := sorted(set(named) - known):
        can = ", ".join(sorted(known)) or "none"
        raise Invalid(f"{action} has no option {unknown[0]!r}; it has {can}")
    return {f"{prefix}{key}": plain(value) for key, value in named.items()}


def plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
