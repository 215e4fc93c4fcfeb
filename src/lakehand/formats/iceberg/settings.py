# SPDX-License-Identifier: Apache-2.0
"""The settings of Iceberg tables, and the rules for rewriting that follow from them and from the table's own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    SMALL_SHARE,
    IcebergSnapshot,
    whole_number,
)
from lakehand.spi import Invalid, Json, health
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
    text_setting,
)

ACTIONS = (REWRITE_DATA, REWRITE_POSITION_DELETES, REWRITE_MANIFESTS, EXPIRE_SNAPSHOTS, REMOVE_ORPHANS)
DELETES_TARGET_BYTES = 64 * health.MB
MANIFEST_TARGET_BYTES = 8 * health.MB
DAY = timedelta(days=1)

TARGET = bytes_setting(
    "iceberg.rewrite-data.target-bytes", "size of a full file", floor=64 * 1024, set_by=SetBy.REQUEST,
    default_text="the table's `write.target-file-size-bytes`, else 512MB",
)  # fmt: skip
MIN_INPUT_FILES = count_setting(
    "iceberg.rewrite-data.min-input-files", "small files in one partition that make it worth it", 5, floor=2,
    set_by=SetBy.REQUEST,
)  # fmt: skip
DELETE_FILES = count_setting(
    "iceberg.rewrite-data.delete-files", "a data file with so many delete files is rewritten", 10, floor=1,
    set_by=SetBy.REQUEST,
)  # fmt: skip
DELETE_RATIO = share_setting(
    "iceberg.rewrite-data.delete-ratio", "and one that has lost this share of its rows", 0.3, floor=0.01,
    set_by=SetBy.REQUEST,
)  # fmt: skip
MAX_FILES = count_setting(
    "iceberg.rewrite-data.max-files", "files that one run rewrites", 10_000, floor=2, set_by=SetBy.REQUEST
)
STRATEGY = choice_setting(
    "iceberg.rewrite-data.strategy", "how rows are laid out", "bin-pack", "sort", "z-order", set_by=SetBy.REQUEST
)
SORT_ORDER = text_setting(
    "iceberg.rewrite-data.sort-order", "for `sort`: `day desc, id asc nulls last`", set_by=SetBy.REQUEST,
    default_text="the table's own",
)  # fmt: skip
Z_ORDER = columns_setting("iceberg.rewrite-data.z-order-columns", "for `z-order`: columns", set_by=SetBy.REQUEST)
REWRITE_ALL = {
    action: flag_setting(
        f"iceberg.{action}.rewrite-all", "everything, whatever its size; for one run only", False,
        set_by=SetBy.REQUEST_ONLY,
    )
    for action in (REWRITE_DATA, REWRITE_POSITION_DELETES)
}  # fmt: skip
DELETES_MIN_INPUT_FILES = count_setting(
    "iceberg.rewrite-position-deletes.min-input-files", "delete files in one partition that make it worth it", 5,
    floor=2, set_by=SetBy.REQUEST,
)  # fmt: skip
MIN_MANIFESTS = count_setting("iceberg.rewrite-manifests.min-manifests", "manifests that make it worth it", 25, floor=2)
QUIET = duration_setting(
    "iceberg.quiet-period", "data and deletes are rewritten only when the last commit is this old", timedelta(),
    replaces=("iceberg.quiet-seconds",),
)  # fmt: skip
REST = duration_setting(
    "iceberg.rest-period", "time between two rewrites of a table whose rows somebody deletes or updates",
    timedelta(minutes=10), replaces=("iceberg.rest-seconds",),
)  # fmt: skip
MAX_AGE = duration_setting(
    "iceberg.expire-snapshots.max-age", "snapshots are kept this long", 5 * DAY, floor=DAY, is_retention=True,
    set_by=SetBy.REQUEST, replaces=("iceberg.expire-snapshots.max-age-hours",),
    floor_replaces=("iceberg.expire-snapshots.max-age-hours-floor",),
)  # fmt: skip
MIN_SNAPSHOTS = count_setting(
    "iceberg.expire-snapshots.min-snapshots", "newest snapshots of each branch that are kept whatever their age", 1,
    floor=1, is_retention=True, set_by=SetBy.REQUEST,
)  # fmt: skip
AT_LEAST = count_setting(
    "iceberg.expire-snapshots.at-least", "snapshots past their age that make it worth it", 1, floor=1
)
FLINK_AGE = duration_setting(
    "iceberg.expire-snapshots.flink-max-age", "a Flink job that has not committed for so long holds nothing",
    30 * DAY, floor=7 * DAY, replaces=("iceberg.expire-snapshots.flink-hours",),
)  # fmt: skip
OLDER_THAN = duration_setting(
    "iceberg.remove-orphans.older-than", "younger files are left alone", 3 * DAY, floor=3 * DAY, is_retention=True,
    set_by=SetBy.REQUEST, replaces=("iceberg.remove-orphans.older-than-hours",),
    floor_replaces=("iceberg.remove-orphans.older-than-hours-floor",),
)  # fmt: skip
EVERY = duration_setting(
    "iceberg.remove-orphans.every", "time between two removals", 7 * DAY, floor=timedelta(hours=1),
    replaces=("iceberg.remove-orphans.every-hours",),
)  # fmt: skip

IcebergContext = DecisionContext[IcebergSnapshot]
_COLUMN = re.compile(r"[\w. -]{1,200}")
_ORDER = re.compile(
    r"(?P<column>[\w. -]+?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)


def iceberg_settings() -> FormatSettings:
    return FormatSettings(
        *switches("iceberg", ACTIONS), TARGET, MIN_INPUT_FILES, DELETE_FILES, DELETE_RATIO, MAX_FILES, STRATEGY,
        SORT_ORDER, Z_ORDER, *REWRITE_ALL.values(), DELETES_MIN_INPUT_FILES, MIN_MANIFESTS, QUIET, REST, MAX_AGE,
        MIN_SNAPSHOTS, AT_LEAST, FLINK_AGE, OLDER_THAN, EVERY,
    )  # fmt: skip


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


def data_rules(values: Values, snapshot: IcebergSnapshot) -> DataRules:
    return DataRules(
        target=values.get(TARGET) or snapshot.target_bytes,
        min_files=values[MIN_INPUT_FILES],
        delete_files=values[DELETE_FILES],
        delete_ratio=values[DELETE_RATIO],
        max_files=values[MAX_FILES],
        order=order(values[STRATEGY], values[SORT_ORDER], values[Z_ORDER]),
    )


def delete_rules(values: Values, snapshot: IcebergSnapshot) -> DeleteRules:
    return DeleteRules(
        target=whole_number(snapshot.properties, "write.delete.target-file-size-bytes", DELETES_TARGET_BYTES),
        min_files=values[DELETES_MIN_INPUT_FILES],
        by_file=snapshot.properties.get("write.delete.granularity", "file").lower() == "file" or snapshot.version > 2,
    )


def manifest_rules(values: Values, snapshot: IcebergSnapshot) -> ManifestRules:
    return ManifestRules(
        target=max(whole_number(snapshot.properties, "commit.manifest.target-size-bytes", MANIFEST_TARGET_BYTES), 1),
        min_manifests=values[MIN_MANIFESTS],
    )


def order(strategy: str, sort: str, columns: Sequence[str]) -> dict[str, Json]:
    """How rows are laid out: ``{}`` as they come, or columns to sort or interleave by."""
    if strategy == "sort":
        return {"sort": [sort_column(part) for part in sort.split(",") if part.strip()]}
    if strategy == "z-order":
        if not columns or not all(_COLUMN.fullmatch(name) for name in columns):
            raise Invalid(f"{Z_ORDER.key} is {','.join(columns)!r}: say {Z_ORDER.hint}")
        return {"z_order": list(columns)}
    return {}


def sort_column(text: str) -> dict[str, Json]:
    found = _ORDER.fullmatch(text.strip())
    if not found:
        raise Invalid(
            f"{SORT_ORDER.key}: {text.strip()!r} is no column with asc or desc, and nulls first or nulls last"
        )
    is_descending = (found["way"] or "asc").lower() == "desc"
    nulls = (found["nulls"] or ("last" if is_descending else "first")).lower()
    return {"column": found["column"].strip(), "descending": is_descending, "nulls_first": nulls == "first"}
