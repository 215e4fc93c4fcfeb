# SPDX-License-Identifier: Apache-2.0
"""Log compaction: merges the small log blocks of a file group, between two compactions that rewrite base files."""

from datetime import timedelta

from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.snapshot import LOG_COMPACTION, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import State, TimelineFile, in_order
from lakehand.spi import Skip

COMPACTIONS = ("compaction", "commit")  # on a merge-on-read table each commit is a compaction
GIVEN_UP = timedelta(hours=2)  # after which a plan that someone has begun counts as abandoned


def why_stale(snapshot: HudiSnapshot, plan: PendingPlan) -> str | None:
    """Hudi never runs a plan that is older than a compaction, pending or completed; None: it still may."""
    newer = newer_compaction(snapshot, plan)
    if newer is None:
        return None
    return f"log-compaction plan {plan.instant} is stale: {newer.name} is newer, and Hudi runs no plan that is older"


def newer_compaction(snapshot: HudiSnapshot, plan: PendingPlan) -> TimelineFile | None:
    later = (file for file in snapshot.timeline.files if in_order(file.instant) > in_order(plan.instant))
    return next((file for file in later if file.action in COMPACTIONS), None)


def wait_for_others(context: HudiContext) -> Skip | None:
    """Hudi keeps no heartbeat of a log compaction, and rolls back one that has begun when it is asked to run it."""
    if context.was_tried:
        return None
    for plan in context.snapshot.pending_of(LOG_COMPACTION):
        left = plan.since + GIVEN_UP - context.table.now
        if plan.state is State.INFLIGHT and left > timedelta():
            reason = f"log-compaction plan {plan.instant} was begun by someone at {plan.since:%Y-%m-%d %H:%M:%S} UTC"
            return Skip(reason=f"{reason}; it counts as abandoned after {GIVEN_UP}", look_again=left)
    return None
