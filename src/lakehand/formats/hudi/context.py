# SPDX-License-Identifier: Apache-2.0
"""The settings of Hudi tables, and the options of Hudi's own that a table or a request may set."""

import re
from collections.abc import Mapping
from datetime import timedelta

from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.formats.hudi.snapshot import ACTIONS, CLEAN, CLUSTERING, COMPACTION, LOG_COMPACTION, HudiSnapshot
from lakehand.formats.hudi.writer_options import KNOWN_VERSIONS
from lakehand.spi import Action, Invalid, Json, kit

HudiContext = kit.DecisionContext[HudiSnapshot]
_COLUMN = re.compile(r"\w[\w.]*")
LEAST_TTL = timedelta(days=7)

THRESHOLDS: Mapping[Action, kit.SettingRow[int]] = {
    COMPACTION: kit.count_setting(
        "hudi.compaction.delta-commits", "service scheduling: delta commits that make a compaction worth it", 5, floor=1
    ),
    CLUSTERING: kit.count_setting("hudi.clustering.commits", "commits that make a clustering worth it", 4, floor=1),
    CLEAN: kit.count_setting("hudi.clean.commits", "commits that make a clean worth it", 10, floor=1),
    LOG_COMPACTION: kit.count_setting(
        "hudi.log-compaction.delta-commits",
        "service scheduling: delta commits since the last compaction or log compaction that make one worth it",
        5,
        floor=2,
    ),
}
STRAY_KEYS = kit.choice_setting(
    "hudi.compaction.stray-keys",
    "what a compaction does about keys that an index of base files would not find after it (`lock`: as `heal`)",
    "heal", "lock", "none",
)  # fmt: skip
LOCK_LIMIT = kit.duration_setting(
    "hudi.compaction.lock-limit", "how long stray keys are looked for and compacted while the writers wait",
    timedelta(minutes=1), floor=timedelta(seconds=10),
)  # fmt: skip
INDEX_TYPE = kit.text_setting(
    "hoodie.index.type", "the index that all writers of the table use, as they set it; not known otherwise"
)
MIN_BLOCKS = kit.count_setting(
    "hudi.log-compaction.min-blocks", "log blocks of a file group that make merging them worth it", 5, floor=2
)
ORDER_COLUMNS = kit.columns_setting("hudi.clustering.order-columns", "columns to sort by", set_by=kit.SetBy.REQUEST)
ORDER_STRATEGY = kit.choice_setting(
    "hudi.clustering.order-strategy", "how to sort", "linear", "z-order", "hilbert", set_by=kit.SetBy.REQUEST
)
RETAIN = kit.retained_count_setting("hudi.clean.retain-commits", "commits whose files stay readable", 10, 2)
MIN_COMMITS = kit.retained_count_setting("hudi.archive.min-commits", "commits that stay on the active timeline", 20, 4)
MAX_COMMITS = kit.count_setting(
    "hudi.archive.max-commits", "commits on the active timeline that make an archive worth it", 30, floor=5
)
MIN_AGE = kit.retention_setting(
    "hudi.rollback-failed-writes.min-age", "time without a heartbeat before a write counts as dead",
    timedelta(minutes=10), timedelta(minutes=2),
)  # fmt: skip
TTL = kit.duration_setting(
    "hudi.partition-ttl.retain",
    "a partition is dropped when it was last written longer ago than this; without it, none is", floor=LEAST_TTL,
    is_retention=True, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
TTL_MOST = kit.count_setting(
    "hudi.partition-ttl.max-partitions", "partitions that one run drops at most, the oldest first", 100, floor=1
)
INDEXES = kit.columns_setting(
    "hudi.indexing.indexes",
    "indexes of the metadata table to build: `column_stats`, `bloom_filters`, `record_index`; none are built otherwise",
)
WRITERS_MAINTAIN = kit.flag_setting(
    "hudi.indexing.writers-maintain",
    "true: all writers of the table have these indexes on. Others drop them at their next commit", default=False,
)  # fmt: skip
VERSIONS = kit.text_setting(
    "hudi.table-versions", "the table versions that the engine's Hudi may write, with commas",
    ",".join(str(version) for version in sorted(KNOWN_VERSIONS)), set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
LOCK_FOLDERS = kit.text_setting(
    "hudi.lock-folders",
    "folders outside of all tables, with commas, in which a table's properties may name the folder of its file lock",
    "", set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
ONLY_WRITER = kit.only_writer_setting("hudi", replaces=("hudi.lock",))
# RFC-43's switches, as writers know them.
ALL_SERVICES = kit.flag_setting("hoodie.table.services.enable", "RFC-43's switch for all services of a table")
SERVICES = {
    action: kit.flag_setting(f"hoodie.table.service.{action}.enable", "the same for one action") for action in ACTIONS
}
ROWS = kit.rows_in(globals())
# Sizes and counts that properties and requests may set: nothing that loads a class or a file, or deletes sooner.
TUNABLE = HudiNotifications.options | {
    "hoodie.memory.merge.fraction",
    "hoodie.parquet.block.size",
    "hoodie.parquet.compression.codec",
    "hoodie.parquet.compression.ratio",
    "hoodie.parquet.page.size",
}


def options_of_writer(action: Action, parameters: Mapping[str, Json]) -> dict[str, str]:
    """What a writer sends along, or what an earlier admission kept: by key, and only what makes sense."""
    rows = [row for row in ROWS if row.set_by.is_option and row.action == action]
    found = {row: str(value) for row in rows if (value := parameters.get(row.option.replace("-", "_")))}
    return {row.key: text for row, text in found.items() if is_sensible(row, text)}


def is_sensible(row: kit.SettingRow[object], text: str) -> bool:
    try:
        row.parse(text, "request")
    except Invalid:
        return False
    return True


def versions(values: kit.Values) -> frozenset[int]:
    try:
        return frozenset(int(text) for text in values[VERSIONS].split(",") if text.strip()) or KNOWN_VERSIONS
    except ValueError:
        raise Invalid(f"{VERSIONS.key} is {values[VERSIONS]!r}: use numbers such as 6,8,9") from None


def order(values: kit.Values) -> dict[str, Json]:
    """How a clustering that we plan sorts its rows; empty: as they come."""
    columns = values[ORDER_COLUMNS]
    if wrong := [one for one in columns if not _COLUMN.fullmatch(one)]:
        raise Invalid(f"cannot order by {wrong[0]!r}: {ORDER_COLUMNS.key} names columns")
    return {"order_columns": ",".join(columns), "order_strategy": values[ORDER_STRATEGY]} if columns else {}


def tunable_options(options: Mapping[str, Json]) -> dict[str, str]:
    return {key: str(value) for key, value in options.items() if key in TUNABLE}
