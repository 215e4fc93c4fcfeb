# SPDX-License-Identifier: Apache-2.0
"""The settings of Delta tables."""

from datetime import timedelta

from lakehand.formats.delta.snapshot import RETENTION_FLOOR, SMALL_SHARE, TARGET, DeltaSnapshot
from lakehand.spi import Action, kit

OPTIMIZE = Action.register("optimize")
Z_ORDER = Action.register("z-order")
VACUUM = Action.register("vacuum")
PURGE = Action.register("purge")
CHECKPOINT = Action.register("checkpoint")
CLEAN_LOG = Action.register("clean-log")
ACTIONS = (OPTIMIZE, Z_ORDER, PURGE, VACUUM, CHECKPOINT, CLEAN_LOG)

MB, GB = 1024**2, 1024**3
LITE, FULL, AUTO = "lite", "full", "auto"
DeltaContext = kit.DecisionContext[DeltaSnapshot]

TARGET_BYTES = {
    action: kit.bytes_setting(
        f"delta.{action}.target-file-bytes", "how large files should become", floor=1, set_by=kit.SetBy.REQUEST,
        default_text="the table's `delta.targetFileSize`, else 128MB",
    )
    for action in (OPTIMIZE, Z_ORDER, PURGE)
}  # fmt: skip
SMALL_FILE_SHARE = kit.share_setting(
    "delta.optimize.small-file-share", "files below this share of the target are small", SMALL_SHARE
)
OPTIMIZE_MIN_FILES = kit.count_setting("delta.optimize.min-files", "so many files must be mergeable", 20)
OPTIMIZE_MAX_BYTES = kit.bytes_setting(
    "delta.optimize.max-bytes", "what one run rewrites at most, in whole partitions; the next run goes on", 100 * GB
)
OPTIMIZE_UNCLUSTERED = kit.share_setting(
    "delta.optimize.unclustered-share", "tables with liquid clustering: the share of bytes that is not clustered yet",
    0.2,
)  # fmt: skip
Z_ORDER_COLUMNS = kit.columns_setting(
    "delta.z-order.columns", "columns to order by. Without them nothing is ordered", set_by=kit.SetBy.REQUEST
)
Z_ORDER_UNCLUSTERED = kit.share_setting(
    "delta.z-order.unclustered-share", "the share of a partition that must be new", 0.2
)
Z_ORDER_MIN_BYTES = kit.bytes_setting(
    "delta.z-order.min-bytes", "smaller partitions are left alone: ordering two files is of no use", 256 * MB
)
Z_ORDER_MAX_BYTES = kit.bytes_setting("delta.z-order.max-bytes", "as for optimize", 100 * GB)
PURGE_MIN_FILES = kit.count_setting("delta.purge.min-files", "so many files must have deletion vectors", 10)
PURGE_DELETED_SHARE = kit.share_setting(
    "delta.purge.deleted-share", "and this share of their rows must be deleted", 0.05
)
VACUUM_MODE = kit.choice_setting(
    "delta.vacuum.mode",
    "`lite`: by the log alone. `full`: by listing the folder. `auto`: lite where the log reaches back far enough",
    AUTO, LITE, FULL, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
VACUUM_MIN_FILES = kit.count_setting(
    "delta.vacuum.min-files", "so many removed files must be past their retention", 1, floor=1
)
VACUUM_RETAIN = kit.retention_setting(
    "delta.vacuum.retain", "keep removed files at least this long; the table's own retention counts when it is longer",
    RETENTION_FLOOR, RETENTION_FLOOR, replaces=("delta.vacuum.retain-hours",),
    floor_replaces=("delta.vacuum.floor-hours",),
)  # fmt: skip
VACUUM_FULL_INTERVAL = kit.duration_setting(
    "delta.vacuum.full-interval",
    "a full vacuum so often, for files that no commit ever named; the first so long after registration; 0s: never",
    timedelta(days=30), replaces=("delta.vacuum.full-interval-days",),
)  # fmt: skip
ONLY_WRITER = kit.only_writer_setting("delta")
LOG_STORE = kit.text_setting(
    "delta.log-store", "the LogStore that Spark has for this storage; taken from `spark.delta.logStore.s3a.impl`",
    set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
CHECKPOINT_COMMITS = kit.count_setting(
    "delta.checkpoint.commits", "so many commits since the last checkpoint make one worth it", floor=2,
    default_text="twice the table's `delta.checkpointInterval`, at least 100",
)  # fmt: skip
CLEAN_LOG_RETAIN = kit.retention_setting(
    "delta.clean-log.retain",
    "keep the log at least this long; the table's `delta.logRetentionDuration` (30 days if not set) counts when it is "
    "longer",
    RETENTION_FLOOR, RETENTION_FLOOR,
)  # fmt: skip
CLEAN_LOG_MIN_FILES = kit.count_setting(
    "delta.clean-log.min-files", "so many files of the log must be past the retention", 100, floor=1
)
FEATURES = kit.text_setting(
    "delta.table-features", "table features that the engine's Delta has and Lakehand does not know, with commas",
    set_by=kit.SetBy.OPERATOR,
)  # fmt: skip
QUIET, REST = ROOM = kit.room_settings("delta", "files")
ROWS = (*kit.switches("delta", ACTIONS), *kit.rows_in(globals()))


def target_bytes(context: DeltaContext) -> int:
    """A request's, then our setting's, then the table's own idea of how large a file should be."""
    return context.values.get(TARGET_BYTES[context.action]) or context.snapshot.target_bytes or TARGET
