# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: which plans an admitted action waits for, and when somebody else may be running its own."""

from datetime import timedelta

from lakehand.formats.hudi.context import HudiContext, switched_off
from lakehand.formats.hudi.snapshot import CLUSTERING, COMPACTION
from lakehand.formats.hudi.writers import fresh_for
from lakehand.spi import Instant, Skip

SOON = timedelta(seconds=15)
LATER = timedelta(minutes=1)
MUCH_LATER = timedelta(minutes=10)


def clustering_first(context: HudiContext) -> Skip | None:
    """A pending clustering blocks upserts."""
    blocking = clusterings_to_come(context)
    return (
        Skip(reason=f"clustering plan {blocking[0]} goes first: it blocks the writer", look_again=SOON)
        if blocking
        else None
    )


def compaction_first(context: HudiContext) -> Skip | None:
    """Never a clean before a pending compaction, whose log files it may take.

    Neither does a log compaction go before one: what the compaction merges need not be merged twice.
    """
    if waiting := clustering_first(context):
        return waiting
    if plans := context.snapshot.pending_of(COMPACTION):
        why = f"compaction plan {plans[0].instant} is pending: no {context.action} before it"
        return Skip(reason=why, look_again=LATER)
    return None


def clusterings_to_come(context: HudiContext) -> list[Instant]:
    """Pending clustering plans that we will run; those that failed or are not ours to run block nobody."""
    if CLUSTERING not in context.table.table.spec.action_types or switched_off(context, CLUSTERING):
        return []
    ended = {o.instant for o in context.table.operations(CLUSTERING) if o.status.is_final}
    return [plan.instant for plan in context.snapshot.pending_of(CLUSTERING) if plan.instant not in ended]


def wait_for_runner(context: HudiContext, instant: Instant) -> Skip | None:
    """Hudi would refuse it as well, but only after a start, and the attempt would count."""
    left = fresh_for(context.snapshot, instant, context.table.now, context.table.config)
    if left is None:
        return None
    seconds = left.total_seconds()
    reason = f"a heartbeat of {instant} is fresh: someone runs it, or died with it; Hudi waits {seconds:.0f} s more"
    return Skip(reason=reason, look_again=min(left + timedelta(seconds=1), LATER))
