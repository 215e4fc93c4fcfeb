# SPDX-License-Identifier: Apache-2.0
"""The settings of Lance tables, and what a compaction aims at by them and by the table's own."""

from dataclasses import dataclass
from datetime import timedelta

from lakehand.formats.lance import snapshot as defaults
from lakehand.formats.lance.snapshot import CLEAN_VERSIONS, COMPACT, LanceSnapshot
from lakehand.spi.kit import (
    DecisionContext,
    FormatSettings,
    SetBy,
    Values,
    bytes_setting,
    count_setting,
    duration_setting,
    share_setting,
    switches,
)

ACTIONS = (COMPACT, CLEAN_VERSIONS)
DAY = timedelta(days=1)

TARGET_ROWS = count_setting(
    "lance.compact.target-rows", "rows of a full fragment", floor=1, set_by=SetBy.REQUEST,
    default_text=f"the table's `{defaults.OWN_TARGET}`, else {defaults.TARGET_ROWS}",
)  # fmt: skip
TARGET_BYTES = bytes_setting(
    "lance.compact.target-bytes", "wide rows make the target smaller, so that a fragment has about this size",
    defaults.TARGET_BYTES, floor=1,
)  # fmt: skip
MIN_FRAGMENTS = count_setting("lance.compact.min-fragments", "fragments to merge that make it worth it", 10, floor=2)
DELETED_SHARE = share_setting(
    "lance.compact.deleted-rows-share", "a fragment with a larger share of deleted rows is rewritten, even alone",
    defaults.DELETED_SHARE, set_by=SetBy.REQUEST,
)  # fmt: skip
MAX_BYTES = bytes_setting("lance.compact.max-bytes", "bytes that one run reads", 64 * 1024**3, floor=1)
MAX_AGE = duration_setting(
    "lance.clean-versions.max-age", "versions are kept this long", 14 * DAY, floor=DAY, is_retention=True,
    set_by=SetBy.REQUEST,
)  # fmt: skip
RETAIN = count_setting(
    "lance.clean-versions.retain-versions", "newest versions that are kept whatever their age", 1, floor=1,
    is_retention=True, set_by=SetBy.REQUEST,
)  # fmt: skip
MIN_VERSIONS = count_setting(
    "lance.clean-versions.min-versions", "versions past their age that make it worth it", 1, floor=1
)
COOL_DOWN = {
    action: duration_setting(
        f"lance.{action}.cool-down", "pause after a run that changed nothing", timedelta(hours=6)
    )
    for action in ACTIONS
}  # fmt: skip

LanceContext = DecisionContext[LanceSnapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionGoals:
    """What a compaction aims at."""

    target_rows: int
    deleted_share: float
    min_fragments: int
    max_bytes: int


def lance_settings() -> FormatSettings:
    return FormatSettings(
        *switches("lance", ACTIONS), TARGET_ROWS, TARGET_BYTES, MIN_FRAGMENTS, DELETED_SHARE, MAX_BYTES,
        COOL_DOWN[COMPACT], MAX_AGE, RETAIN, MIN_VERSIONS, COOL_DOWN[CLEAN_VERSIONS],
    )  # fmt: skip


def goals(values: Values, snapshot: LanceSnapshot) -> CompactionGoals:
    return CompactionGoals(
        target_rows=target_rows(values, snapshot),
        deleted_share=values[DELETED_SHARE],
        min_fragments=values[MIN_FRAGMENTS],
        max_bytes=values[MAX_BYTES],
    )


def target_rows(values: Values, snapshot: LanceSnapshot) -> int:
    """The most specific wins: the request, the table or plugin, the table's own manifest, the default."""
    if values.is_asked(TARGET_ROWS):
        return values[TARGET_ROWS]
    own = snapshot.own_target_rows or ""
    rows = values.get(TARGET_ROWS) or (int(own) if own.isdigit() else defaults.TARGET_ROWS)
    return snapshot.target_rows(max(rows, 1), values[TARGET_BYTES])
