# SPDX-License-Identifier: Apache-2.0
"""The settings of Iceberg tables."""

import re
from datetime import timedelta

from lakehand.formats.iceberg import snapshot
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Invalid, Json, kit

IcebergContext = kit.DecisionContext[IcebergSnapshot]
ONLY_WRITER = kit.only_writer_setting("iceberg")
REQUEST = kit.SetBy.REQUEST
DAY = timedelta(days=1)
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
REWRITE_ALL = {
    action: kit.flag_setting(
        f"iceberg.{action}.rewrite-all", "everything, whatever its size; for one run only", False,
        set_by=kit.SetBy.REQUEST_ONLY,
    )
    for action in (snapshot.REWRITE_DATA, snapshot.REWRITE_POSITION_DELETES)
}  # fmt: skip
DELETES_MIN_INPUT_FILES = kit.count_setting(
    "iceberg.rewrite-position-deletes.min-input-files", "delete files in one partition that make it worth it", 5,
    floor=2, set_by=REQUEST,
)  # fmt: skip
MIN_MANIFESTS = kit.count_setting(
    "iceberg.rewrite-manifests.min-manifests", "manifests that make it worth it", 25, floor=2
)
QUIET, REST = ROOM = kit.room_settings(
    "iceberg", "data and deletes", replaces=("iceberg.quiet-seconds", "iceberg.rest-seconds")
)
MAX_AGE = kit.retention_setting(
    "iceberg.expire-snapshots.max-age", "snapshots are kept this long", 5 * DAY, DAY,
    replaces=("iceberg.expire-snapshots.max-age-hours",),
    floor_replaces=("iceberg.expire-snapshots.max-age-hours-floor",),
)  # fmt: skip
MIN_SNAPSHOTS = kit.retained_count_setting(
    "iceberg.expire-snapshots.min-snapshots", "newest snapshots of each branch that are kept whatever their age", 1, 1
)
AT_LEAST = kit.count_setting(
    "iceberg.expire-snapshots.at-least", "snapshots past their age that make it worth it", 1, floor=1
)
FLINK_AGE = kit.duration_setting(
    "iceberg.expire-snapshots.flink-max-age", "a Flink job that has not committed for so long holds nothing",
    30 * DAY, floor=7 * DAY, replaces=("iceberg.expire-snapshots.flink-hours",),
)  # fmt: skip
OLDER_THAN = kit.retention_setting(
    "iceberg.remove-orphans.older-than", "younger files are left alone", 3 * DAY, 3 * DAY,
    replaces=("iceberg.remove-orphans.older-than-hours",),
    floor_replaces=("iceberg.remove-orphans.older-than-hours-floor",),
)  # fmt: skip
EVERY = kit.duration_setting(
    "iceberg.remove-orphans.every", "time between two removals", 7 * DAY, floor=timedelta(hours=1),
    replaces=("iceberg.remove-orphans.every-hours",),
)  # fmt: skip
STATISTICS_COLUMNS = kit.columns_setting(
    "iceberg.compute-statistics.columns", "columns to count the distinct values of", set_by=REQUEST,
    default_text="the first 100 that are no structs, lists or maps",
)  # fmt: skip
STATISTICS_MAX_BYTES = kit.bytes_setting(
    "iceberg.compute-statistics.max-bytes", "larger tables are read only on request: all of their data is",
    100 * 1024**3,
)  # fmt: skip
CHANGED_SHARE = {
    action: kit.share_setting(
        f"iceberg.{action}.changed-share", f"so many {what} must have come or gone since the last time", 0.1,
        floor=0.001,
    )
    for action, what in (
        (snapshot.COMPUTE_STATISTICS, "rows"),
        (snapshot.COMPUTE_PARTITION_STATISTICS, "data and delete files"),
    )
}  # fmt: skip
STATISTICS_EVERY = {
    action: kit.duration_setting(
        f"iceberg.{action}.every", "time between two computations, at least", pause, floor=timedelta(minutes=1)
    )
    for action, pause in (
        (snapshot.COMPUTE_STATISTICS, DAY),
        (snapshot.COMPUTE_PARTITION_STATISTICS, timedelta(hours=1)),
    )
}
ROWS = kit.rows_in(globals())


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
            f"{SORT_ORDER.key}: {text.strip()!r} is no column with asc or desc, and nulls first or nulls last"
        )
    is_descending = (found["way"] or "asc").lower() == "desc"
    nulls = (found["nulls"] or ("last" if is_descending else "first")).lower()
    return {"column": found["column"].strip(), "descending": is_descending, "nulls_first": nulls == "first"}
