# SPDX-License-Identifier: Apache-2.0
"""Log compaction: merges the small log blocks of a file group, between two compactions that rewrite base files."""

from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.planned import PlannedAction, enough_commits, verify_plans
from lakehand.formats.hudi.snapshot import CLUSTERING, COMPACTION, LOG_COMPACTION, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import TimelineFile, in_order
from lakehand.formats.hudi.turns import compaction_first
from lakehand.spi import Json, Skip, kit

DELTA_COMMITS = kit.count_setting(
    "hudi.log-compaction.delta-commits",
    "service scheduling: delta commits since the last compaction or log compaction that make one worth it",
    5,
    floor=2,
)
MIN_BLOCKS = kit.count_setting(
    "hudi.log-compaction.min-blocks", "log blocks of a file group that make merging them worth it", 5, floor=2
)

READ_AS_NEWEST = 6  # the table version whose readers do that
COMPACTIONS = ("compaction", "commit")  # on a merge-on-read table each commit is a compaction


def decide(context: HudiContext) -> kit.Need | Skip:
    return enough_commits(context, DELTA_COMMITS)


def why_impossible(context: HudiContext) -> str | None:
    if not context.snapshot.is_merge_on_read:
        return "a copy-on-write table has no logs to compact"
    if context.snapshot.version == READ_AS_NEWEST:
        return (
            "the table has hoodie.table.version 6: readers of Hudi 0.x take a merged log block for the newest, and do "
            "not see what a writer committed beside it"
        )
    return None


def limits(context: HudiContext) -> dict[str, Json]:
    return {"min_blocks": context.values[MIN_BLOCKS]}


def why_stale(snapshot: HudiSnapshot, plan: PendingPlan) -> str | None:
    """Hudi never runs a plan that is older than a compaction, pending or completed; None: it still may."""
    newer = newer_compaction(snapshot, plan)
    if newer is None:
        return None
    return f"log-compaction plan {plan.instant} is stale: {newer.name} is newer, and Hudi runs no plan that is older"


def newer_compaction(snapshot: HudiSnapshot, plan: PendingPlan) -> TimelineFile | None:
    later = (file for file in snapshot.timeline.files if in_order(file.instant) > in_order(plan.instant))
    return next((file for file in later if file.action in COMPACTIONS), None)


ACTION = PlannedAction(
    name=LOG_COMPACTION, settings=(DELTA_COMMITS, MIN_BLOCKS), decide=decide, impossible=why_impossible,
    after=(CLUSTERING, COMPACTION), not_now=compaction_first, why_stale=why_stale, limits=limits, verify=verify_plans,
)  # fmt: skip
