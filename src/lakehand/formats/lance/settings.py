# SPDX-License-Identifier: Apache-2.0
"""The settings of Lance tables."""

from datetime import timedelta

from lakehand.formats.lance import snapshot
from lakehand.formats.lance.snapshot import LanceSnapshot
from lakehand.spi import kit

LanceContext = kit.DecisionContext[LanceSnapshot]
ACTIONS = (snapshot.COMPACT, snapshot.CLEAN_VERSIONS, snapshot.OPTIMIZE_INDICES)
DAY = timedelta(days=1)

TARGET_ROWS = kit.count_setting(
    "lance.compact.target-rows", "rows of a full fragment", floor=1, set_by=kit.SetBy.REQUEST,
    default_text=f"the table's `{snapshot.OWN_TARGET}`, else {snapshot.TARGET_ROWS}",
)  # fmt: skip
TARGET_BYTES = kit.bytes_setting(
    "lance.compact.target-bytes", "wide rows make the target smaller, so that a fragment has about this size",
    snapshot.TARGET_BYTES, floor=1,
)  # fmt: skip
MIN_FRAGMENTS = kit.count_setting(
    "lance.compact.min-fragments", "fragments to merge that make it worth it", 10, floor=2
)
DELETED_SHARE = kit.share_setting(
    "lance.compact.deleted-rows-share", "a fragment with a larger share of deleted rows is rewritten, even alone",
    snapshot.DELETED_SHARE, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MAX_BYTES = kit.bytes_setting("lance.compact.max-bytes", "bytes that one run reads", 64 * 1024**3, floor=1)
MAX_AGE = kit.retention_setting("lance.clean-versions.max-age", "versions are kept this long", 14 * DAY, DAY)
RETAIN = kit.retained_count_setting(
    "lance.clean-versions.retain-versions", "newest versions that are kept whatever their age", 1, 1
)
MIN_VERSIONS = kit.count_setting(
    "lance.clean-versions.min-versions", "versions past their age that make it worth it", 1, floor=1
)
UNINDEXED_ROWS = kit.count_setting(
    "lance.optimize-indices.unindexed-rows", "rows outside of an index that make it worth it", 10_000, floor=1
)
UNINDEXED_SHARE = kit.share_setting(
    "lance.optimize-indices.unindexed-share", "or this share of the table's rows, if that is fewer", 0.1
)
MAX_PARTS = kit.count_setting(
    "lance.optimize-indices.max-parts", "an index of vectors with more parts is merged into one", 10, floor=1
)
MAX_ROWS = kit.count_setting(
    "lance.optimize-indices.max-rows", "more rows than this are not added to an index in the driver", 50_000_000,
    floor=1, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MAX_INDEX_BYTES = kit.bytes_setting(
    "lance.optimize-indices.max-bytes", "a larger index is not rewritten in the driver; one of vectors gets new parts",
    4 * 1024**3, floor=1, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
COOL_DOWN = {
    action: kit.duration_setting(
        f"lance.{action}.cool-down", "pause after a run that changed nothing", timedelta(hours=6)
    )
    for action in ACTIONS
}  # fmt: skip
ROWS = (*kit.switches("lance", ACTIONS), *kit.rows_in(globals()))


def target_rows(context: LanceContext) -> int:
    """The most specific wins: the request, the table or plugin, the table's own manifest, the default."""
    values = context.values
    if values.is_requested(TARGET_ROWS):
        return values[TARGET_ROWS]
    own = context.snapshot.own_target_rows or ""
    rows = values.get(TARGET_ROWS) or (int(own) if own.isdigit() else snapshot.TARGET_ROWS)
    return context.snapshot.target_rows(max(rows, 1), values[TARGET_BYTES])
