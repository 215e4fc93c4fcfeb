# SPDX-License-Identifier: Apache-2.0
"""What a table needs now: a plan that its writer left, a plan of our own, or nothing and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehand.formats.hudi import settings
from lakehand.formats.hudi.conflicts import back_off
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.mirror import why_unknown
from lakehand.formats.hudi.settings import Floors
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import WRITES
from lakehand.formats.hudi.writers import warning
from lakehand.spi import Action, Operation, Scheduling, Skip, Status, TableProcess, TableRuntime

EXECUTE = "execute"
PLAN_AND_EXECUTE = "plan-and-execute"
WHAT = {COMPACTION: "delta commits", CLUSTERING: "commits", CLEAN: "commits"}


def decide(table: TableRuntime, snapshot: HudiSnapshot, action: Action, floors: Floors) -> TableProcess | Skip:
    if why := why_never(table, snapshot, action, floors):
        return Skip(reason=why)
    decision = needed(table, snapshot, action, floors)
    if action == CLUSTERING and (warned := warning(table, snapshot)):
        return replace(decision, reason=f"{decision.reason}; {warned}")
    return decision


def needed(table: TableRuntime, snapshot: HudiSnapshot, action: Action, floors: Floors) -> TableProcess | Skip:
    if planner := planning(table, action):
        return Skip(reason=f"operation {planner.id} plans and runs it ({planner.status})")
    plans = snapshot.pending_of(action)
    known = {operation.instant: operation for operation in table.operations() if is_in_care(operation)}
    for plan in plans:
        if plan.instant not in known:
            return run_plan(plan)
    if plans:
        return Skip(reason="; ".join(in_care(plan, known[plan.instant]) for plan in plans))
    if table.table.spec.scheduling is Scheduling.WRITER:
        return Skip(reason=f"no pending {action} plan; {since_last(snapshot, action)}")
    return plan_ourselves(table, snapshot, action, floors)


def why_never(table: TableRuntime, snapshot: HudiSnapshot, action: Action, floors: Floors) -> str | None:
    if off := settings.switched_off(table.config, action):
        return off
    if action == COMPACTION and not snapshot.is_merge_on_read:
        return "a copy-on-write table has nothing to compact"
    return why_unknown(snapshot, floors.versions)


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


def is_in_care(operation: Operation) -> bool:
    """A dropped operation had lost its plan: if the plan is there, it has come back."""
    return operation.status is not Status.DROPPED or operation.is_deleted


def in_care(plan: PendingPlan, operation: Operation) -> str:
    """Why a plan that we know leads to nothing new."""
    retry = f"to try it again: lakehand operations retry {operation.id}"
    if operation.is_deleted:
        return f"plan {plan.instant} was removed as operation {operation.id}; {retry}"
    if operation.status in (Status.FAILED, Status.CANCELED):
        return f"plan {plan.instant} ended {operation.status} as operation {operation.id} ({operation.reason}); {retry}"
    if operation.status is Status.SUCCEEDED:
        return f"plan {plan.instant} is pending although operation {operation.id} completed it: someone brought it back"
    return f"plan {plan.instant} is in the care of operation {operation.id} ({operation.status})"


def plan_ourselves(table: TableRuntime, snapshot: HudiSnapshot, action: Action, floors: Floors) -> TableProcess | Skip:
    lock = shared_lock(table.config)
    if isinstance(lock, NoLock):
        return Skip(reason=f"{action} is not planned beside the writer: {lock.reason}")
    if blocked := why_blocked(snapshot, action):
        return Skip(reason=blocked)
    if too_few := why_too_few(table, snapshot, action, floors):
        return Skip(reason=too_few)
    if action == CLUSTERING and (waiting := back_off(table)):
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


def why_too_few(table: TableRuntime, snapshot: HudiSnapshot, action: Action, floors: Floors) -> str | None:
    """Counted from the last run or from what our last look saw, so that a look without effect is not repeated."""
    needed = settings.threshold(table.config, action)
    seen = last_seen(table, action)
    count = snapshot.commits_since(action, seen)
    if count < needed:
        after = f" or since operation {seen_by(table, action)} looked" if seen else ""
        return f"{count} of {needed} {WHAT[action]} since the last {action}{after}"
    retained = settings.retained_commits(table.config, floors)
    commits = len(snapshot.timeline.completed(*WRITES))
    if action == CLEAN and commits <= retained:
        return f"{commits} commits, and {retained} are retained"
    return None


def last_seen(table: TableRuntime, action: Action) -> str:
    last = last_look(table, action)
    return str(last.process.parameters.get("seen") or "") if last else ""


def seen_by(table: TableRuntime, action: Action) -> str:
    last = last_look(table, action)
    return str(last.id) if last else ""


def last_look(table: TableRuntime, action: Action) -> Operation | None:
    """The last time that we planned ourselves, whether or not there was something to do."""
    ended = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)
    looks = (o for o in table.operations(action) if o.process.parameters.get("mode") == PLAN_AND_EXECUTE)
    return next((o for o in looks if o.status in ended), None)


def since_last(snapshot: HudiSnapshot, action: Action) -> str:
    done = snapshot.instants_of(action)
    last = f"the last {action} at {done[-1]}" if done else f"the beginning of the timeline, without a {action}"
    return f"{snapshot.commits_since(action)} {WHAT[action]} since {last}"
