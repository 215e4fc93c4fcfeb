# SPDX-License-Identifier: Apache-2.0
"""What a table needs now: a plan that its writer left, a plan of our own, or nothing and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehand.formats.hudi import settings
from lakehand.formats.hudi.conflicts import wait_after_losses
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import WRITES
from lakehand.formats.hudi.writer_options import why_unknown
from lakehand.formats.hudi.writers import warning
from lakehand.spi import Action, Operation, Scheduling, Skip, Status, TableProcess, TableRuntime
from lakehand.spi.kit import Values

EXECUTE = "execute"
PLAN_AND_EXECUTE = "plan-and-execute"
WHAT = {COMPACTION: "delta commits", CLUSTERING: "commits", CLEAN: "commits"}


def decide(table: TableRuntime, snapshot: HudiSnapshot, action: Action, values: Values) -> TableProcess | Skip:
    if why := why_never(snapshot, action, values):
        return Skip(reason=why)
    decision = needed(table, snapshot, action, values)
    if action == CLUSTERING and (warned := warning(table, snapshot)):
        return replace(decision, reason=f"{decision.reason}; {warned}")
    return decision


def needed(table: TableRuntime, snapshot: HudiSnapshot, action: Action, values: Values) -> TableProcess | Skip:
    if planner := planning(table, action):
        return Skip(reason=f"operation {planner.id} plans and runs it ({planner.status})")
    plans = snapshot.pending_of(action)
    known = {operation.instant: operation for operation in table.operations() if is_known(operation)}
    for plan in plans:
        if plan.instant not in known:
            return run_plan(plan)
    if plans:
        return Skip(reason="; ".join(why_waiting(plan, known[plan.instant]) for plan in plans))
    if table.table.spec.scheduling is Scheduling.WRITER:
        return Skip(reason=f"no pending {action} plan; {since_last(snapshot, action)}")
    return plan_ourselves(table, snapshot, action, values)


def switched_off(values: Values, action: Action) -> str | None:
    return values.switched_off(settings.ALL_SERVICES, settings.SERVICES[action])


def why_never(snapshot: HudiSnapshot, action: Action, values: Values) -> str | None:
    if off := switched_off(values, action):
        return off
    if action == COMPACTION and not snapshot.is_merge_on_read:
        return "a copy-on-write table has nothing to compact"
    return why_unknown(snapshot, settings.versions(values))


def run_plan(plan: PendingPlan) -> TableProcess:
    return TableProcess(
        action=plan.action,
        job=f"hudi.{plan.action}",
        instant=plan.instant,
        parameters={"mode": EXECUTE},
        urgent=plan.action == CLUSTERING,
        reason=f"plan {plan.instant} is {plan.state} since {plan.since:%Y-%m-%d %H:%M:%S} UTC: {plan.size}",
    )


def planning(table: TableRuntime, action: Action) -> Operation | None:
    """An unfinished operation that plans by itself: plans on the timeline may be its own, and it runs the rest."""
    own = (o for o in table.operations(action) if o.process.parameters.get("mode") == PLAN_AND_EXECUTE)
    return next((o for o in own if not o.status.is_final), None)


def is_known(operation: Operation) -> bool:
    """A dropped operation had lost its plan: if the plan is there, it has come back."""
    return operation.status is not Status.DROPPED or operation.is_deleted


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


def plan_ourselves(table: TableRuntime, snapshot: HudiSnapshot, action: Action, values: Values) -> TableProcess | Skip:
    lock = shared_lock(table.config)
    if isinstance(lock, NoLock):
        return Skip(reason=f"{action} is not planned beside the writer: {lock.reason}")
    if blocked := why_blocked(snapshot, action):
        return Skip(reason=blocked)
    if too_few := why_too_few(table, snapshot, action, values):
        return Skip(reason=too_few)
    if action == CLUSTERING and (waiting := wait_after_losses(table)):
        return waiting
    return TableProcess(
        action=action,
        job=f"hudi.{action}",
        parameters={"mode": PLAN_AND_EXECUTE, "seen": snapshot.timeline.newest_write},
        urgent=action == CLUSTERING,
        reason=since_last(snapshot, action),
    )


def why_blocked(snapshot: HudiSnapshot, action: Action) -> str | None:
    """Never clean while a compaction is pending, and plan nothing while a clustering blocks the writer."""
    order: Mapping[Action, Sequence[Action]] = {CLEAN: (CLUSTERING, COMPACTION), COMPACTION: (CLUSTERING,)}
    for first in order.get(action, ()):
        if plans := snapshot.pending_of(first):
            return f"{first} plan {plans[0].instant} is pending and goes first"
    return None


def why_too_few(table: TableRuntime, snapshot: HudiSnapshot, action: Action, values: Values) -> str | None:
    """Counted from the last run or from what our last planning saw, so that one without effect is not repeated."""
    needed = values[settings.THRESHOLDS[action]]
    seen = last_seen(table, action)
    count = snapshot.commits_since(action, seen)
    if count < needed:
        after = f" or since operation {seen_by(table, action)} planned" if seen else ""
        return f"{count} of {needed} {WHAT[action]} since the last {action}{after}"
    retained = values[settings.RETAIN]
    commits = len(snapshot.timeline.completed(*WRITES))
    if action == CLEAN and commits <= retained:
        return f"{commits} commits, and {retained} are retained"
    return None


def last_seen(table: TableRuntime, action: Action) -> str:
    last = last_planning(table, action)
    return str(last.process.parameters.get("seen") or "") if last else ""


def seen_by(table: TableRuntime, action: Action) -> str:
    last = last_planning(table, action)
    return str(last.id) if last else ""


def last_planning(table: TableRuntime, action: Action) -> Operation | None:
    """The last time that we planned ourselves, whether or not there was something to do."""
    ended = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)
    own = (o for o in table.operations(action) if o.process.parameters.get("mode") == PLAN_AND_EXECUTE)
    return next((o for o in own if o.status in ended), None)


def since_last(snapshot: HudiSnapshot, action: Action) -> str:
    done = snapshot.instants_of(action)
    last = f"the last {action} at {done[-1]}" if done else f"the beginning of the timeline, without a {action}"
    return f"{snapshot.commits_since(action)} {WHAT[action]} since {last}"
