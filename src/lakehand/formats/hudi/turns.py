# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: which plans an admitted action waits for, and when somebody else may be running its own."""

from collections.abc import Iterable
from datetime import timedelta

from lakehand.formats.hudi.context import HudiContext, switched_off
from lakehand.formats.hudi.snapshot import CLUSTERING, COMPACTION, PendingPlan
from lakehand.formats.hudi.timeline import State
from lakehand.formats.hudi.writers import BUCKET, fresh_for, heartbeats, writers_index
from lakehand.spi import Instant, Skip

SOON = timedelta(seconds=15)
LATER = timedelta(minutes=1)
MUCH_LATER = timedelta(minutes=10)
ABANDONED = timedelta(hours=2)  # after which a plan that somebody else has begun, without heartbeats, is free
SKEW = timedelta(minutes=1)  # between the clocks of the storage and of the service


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
    if writers_index(context.snapshot, context.table.config) == BUCKET:
        return []
    ended = {o.instant for o in context.table.operations(CLUSTERING) if o.status.is_final}
    return [plan.instant for plan in context.snapshot.pending_of(CLUSTERING) if plan.instant not in ended]


def wait_for_runners(context: HudiContext, plans: Iterable[PendingPlan]) -> Skip | None:
    return next((waiting for plan in plans if (waiting := wait_for_runner(context, plan))), None)


def wait_for_runner(context: HudiContext, plan: PendingPlan) -> Skip | None:
    """While somebody else may run a plan: Hudi would refuse it as well, or roll back what the other one writes."""
    left = fresh_for(context.snapshot, plan.instant, context.table.now, context.table.config)
    if left is None:
        return wait_for_silent_runner(context, plan)
    seconds = left.total_seconds()
    reason = (
        f"a heartbeat of {plan.instant} is fresh: someone runs it, or died with it; Hudi waits {seconds:.0f} s more"
    )
    return Skip(reason=reason, look_again=min(left + timedelta(seconds=1), LATER))


def wait_for_silent_runner(context: HudiContext, plan: PendingPlan) -> Skip | None:
    """Only compactions under a lock have heartbeats, from Hudi 1.2 on. Any other runner shows its start alone."""
    left = plan.since + ABANDONED - context.table.now
    if plan.state is not State.INFLIGHT or left <= timedelta() or plan.instant in heartbeats(context.snapshot):
        return None
    if context.was_tried or was_begun_by_us(context, plan):
        return None
    why = (
        f"{plan.action} plan {plan.instant} was begun by someone else at {plan.since:%Y-%m-%d %H:%M:%S} UTC, and Hudi "
        f"keeps no heartbeat of it; it counts as abandoned after {ABANDONED}"
    )
    return Skip(reason=why, look_again=min(left, LATER))


def was_begun_by_us(context: HudiContext, plan: PendingPlan) -> bool:
    """Whether an operation of ours was at work when the plan was begun; it may have ended without completing it."""
    begun, now = plan.since, context.table.now
    tried = (one for one in context.table.operations(context.action) if one.run_times)
    return any(one.created_at - SKEW <= begun <= (one.finished_at or now) + SKEW for one in tried)
