# SPDX-License-Identifier: Apache-2.0
"""What a table needs now: a plan that its writer left, a plan of our own, or nothing and why."""

from collections.abc import Mapping
from dataclasses import replace

from lakehand.formats.hudi import compaction as indexes
from lakehand.formats.hudi import context as settings
from lakehand.formats.hudi import writers
from lakehand.formats.hudi.clustering import MAY_BE_STALE, wait_after_losses
from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.snapshot import (
    ARCHIVE,
    CLEAN,
    CLUSTERING,
    COMPACTION,
    LOG_COMPACTION,
    HudiSnapshot,
    PendingPlan,
)
from lakehand.formats.hudi.timeline import WRITES
from lakehand.formats.hudi.writer_options import why_unknown
from lakehand.spi import Action, Instant, Json, Operation, Scheduling, Skip, Status, TableProcess, TableRuntime

EXECUTE = "execute"
PLAN_AND_EXECUTE = "plan-and-execute"
# Plans that go before an action.
ORDER = {
    CLEAN: (CLUSTERING, COMPACTION),
    COMPACTION: (CLUSTERING,),
    LOG_COMPACTION: (CLUSTERING, COMPACTION),
    ARCHIVE: (CLEAN,),
}
MERGE_ON_READ_ONLY = {
    COMPACTION: "a copy-on-write table has nothing to compact",
    LOG_COMPACTION: "a copy-on-write table has no logs to compact",
}
TOO_OLD = {
    LOG_COMPACTION: {
        6: "the table has hoodie.table.version 6: readers of Hudi 0.x take a merged log block for the newest, and do "
        "not see what a writer committed beside it"
    }
}
WHAT = {COMPACTION: "delta commits", CLUSTERING: "commits", CLEAN: "commits", LOG_COMPACTION: "delta commits"}


def decide(context: HudiContext) -> TableProcess | Skip:
    """For actions whose plans are on the timeline."""
    decision, warned = decide_need(context), None
    if context.action == CLUSTERING:
        warned = writers.warning(context.table, context.snapshot)
    elif context.action == COMPACTION:
        warned = indexes.warning(context)
    return replace(decision, reason=f"{decision.reason}; {warned}") if warned else decision


def decide_need(context: HudiContext) -> TableProcess | Skip:
    if found := decide_pending(context):
        return found
    if context.table.table.spec.scheduling is Scheduling.WRITER:
        return Skip(reason=f"no pending {context.action} plan; {since_last(context.snapshot, context.action)}")
    return plan_ourselves(context)


def decide_pending(context: HudiContext) -> TableProcess | Skip | None:
    """What to do about plans that are on the timeline; None: there are none, and we make none just now."""
    table, snapshot, action = context.table, context.snapshot, context.action
    planner = next((o for o in own_plannings(table, action) if not o.status.is_final), None)
    if planner is not None:
        return Skip(reason=f"operation {planner.id} plans and runs it ({planner.status})")
    plans = snapshot.pending_of(action)
    # A dropped operation had lost its plan: if the plan is there, it has come back.
    known = {o.instant: o for o in table.operations() if o.status is not Status.DROPPED or o.is_deleted}
    for plan in plans:
        if plan.instant not in known:
            since = f"since {plan.since:%Y-%m-%d %H:%M:%S} UTC: {plan.size}"
            reason = f"plan {plan.instant} is {plan.state} {since}"
            return process(action, {"mode": EXECUTE}, reason, instant=plan.instant)
    return Skip(reason="; ".join(why_waiting(plan, known[plan.instant]) for plan in plans)) if plans else None


def process(
    action: Action,
    parameters: Mapping[str, Json],
    reason: str,
    *,
    instant: Instant | None = None,
    engine: str = "spark",
) -> TableProcess:
    return TableProcess(
        action=action, job=f"hudi.{action.replace('-', '_')}", engine=engine, instant=instant, parameters=parameters,
        urgent=action == CLUSTERING, reason=reason,
    )  # fmt: skip


def switched_off(context: HudiContext, action: Action) -> str | None:
    return context.values.switched_off(settings.ALL_SERVICES, settings.SERVICES[action])


def why_never(context: HudiContext) -> str | None:
    if off := switched_off(context, context.action):
        return off
    if context.action in MERGE_ON_READ_ONLY and not context.snapshot.is_merge_on_read:
        return MERGE_ON_READ_ONLY[context.action]
    if context.snapshot.version in TOO_OLD.get(context.action, {}):
        return TOO_OLD[context.action][context.snapshot.version]
    return why_unknown(context.snapshot, settings.versions(context.values))


def own_plannings(table: TableRuntime, action: Action) -> list[Operation]:
    """Operations that plan by themselves: plans on the timeline may be theirs, and they run the rest."""
    return [o for o in table.operations(action) if o.process.parameters.get("mode") == PLAN_AND_EXECUTE]


def why_waiting(plan: PendingPlan, operation: Operation) -> str:
    """Why a plan that we know leads to nothing new."""
    retry = f"to try it again: lakehand operations retry {operation.id}"
    if operation.is_deleted:
        return f"plan {plan.instant} was removed as operation {operation.id}; {retry}"
    if operation.status in (Status.FAILED, Status.CANCELED):
        return f"plan {plan.instant} ended {operation.status} as operation {operation.id} ({operation.reason}); {retry}"
    if operation.status is Status.SUCCEEDED:
        return f"plan {plan.instant} is pending although operation {operation.id} completed it: someone brought it back"
    return f"plan {plan.instant} belongs to operation {operation.id} ({operation.status})"


def plan_ourselves(context: HudiContext) -> TableProcess | Skip:
    snapshot, action = context.snapshot, context.action
    lock = shared_lock(context.table.config)
    if isinstance(lock, NoLock):
        return Skip(reason=f"{action} is not planned beside the writer: {lock.reason}")
    if first := goes_first(context):
        return first
    if too_few := why_too_few(context):
        return Skip(reason=too_few)
    if action in MAY_BE_STALE and (waiting := wait_after_losses(context.table, action)):
        return waiting
    parameters = {"mode": PLAN_AND_EXECUTE, "seen": snapshot.timeline.newest_write}
    return process(action, parameters, since_last(snapshot, action))


def goes_first(context: HudiContext) -> Skip | None:
    for first in ORDER.get(context.action, ()):
        if plans := context.snapshot.pending_of(first):
            return Skip(reason=f"{first} plan {plans[0].instant} is pending and goes first")
    return None


def why_too_few(context: HudiContext) -> str | None:
    """Counted from the last run or from what our last planning saw, so that one without effect is not repeated."""
    snapshot, action, least = context.snapshot, context.action, context.values[settings.THRESHOLDS[context.action]]
    plannings = own_plannings(context.table, action)
    last = next((o for o in plannings if o.status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)), None)
    seen = str(last.process.parameters.get("seen") or "") if last else ""
    count = snapshot.commits_since(action, seen)
    if count < least:
        after = f" or since operation {last.id} planned" if last and seen else ""
        return f"{count} of {least} {WHAT[action]} since the last {action}{after}"
    retained, commits = context.values[settings.RETAIN], len(snapshot.timeline.completed(*WRITES))
    return f"{commits} commits, and {retained} are retained" if action == CLEAN and commits <= retained else None


def since_last(snapshot: HudiSnapshot, action: Action) -> str:
    done = snapshot.instants_of(action)
    last = f"the last {action} at {done[-1]}" if done else f"the beginning of the timeline, without a {action}"
    return f"{snapshot.commits_since(action)} {WHAT[action]} since {last}"
