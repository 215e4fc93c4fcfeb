# SPDX-License-Identifier: Apache-2.0
"""Actions whose plans are on the timeline: a plan that a writer left is run, and ours where the service schedules.

A plan that lost against a writer is rolled back, and planned again later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile

from lakehand.domain.processes import back_off
from lakehand.formats.hudi.actions import EXECUTE, PLAN_AND_EXECUTE, HudiAction, is_planning
from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.plans import clean_numbers, commit_numbers
from lakehand.formats.hudi.snapshot import HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import State, TimelineFile, in_order, instants_in
from lakehand.formats.hudi.turns import wait_for_runners
from lakehand.spi import (
    Action,
    Drop,
    Failure,
    Finding,
    Instant,
    Json,
    Operation,
    Remedy,
    Scheduling,
    Skip,
    Status,
    TableConfig,
    TableProcess,
    TableRuntime,
    Verdict,
    kit,
)
from lakehand.spi.kit.conversions import fields, items
from lakehand.spi.kit.verdicts import gone, not_done
from lakehand.spi.pauses import minutes, remaining

LOST = "lost"  # in a result: plans that lost against a writer, each with the reason
FIRST_BACK_OFF = timedelta(seconds=15)
LONGEST_BACK_OFF = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction(HudiAction):
    """``decide`` says whether a plan of our own is worth it; one that is on the timeline is run without asking it."""

    why_stale: Callable[[HudiSnapshot, PendingPlan], str | None] | None = None  # why a plan cannot succeed any more
    warning: Callable[[HudiContext], str | None] = lambda context: None  # about the writers, in each reason
    # A completed plan of an attempt that ended without a result, whose job has more to do.
    unfinished: Callable[[HudiSnapshot, TableProcess], Instant | None] = lambda snapshot, process: None

    def trigger(self, context: HudiContext) -> TableProcess | Skip:
        decision, warned = self.run_or_plan(context), self.warning(context)
        return replace(decision, reason=f"{decision.reason}; {warned}") if warned else decision

    def run_or_plan(self, context: HudiContext) -> TableProcess | Skip:
        if found := self.run_pending(context):
            return found
        if context.table.table.spec.scheduling is Scheduling.WRITER:
            return Skip(reason=f"no pending {self.name} plan; {context.snapshot.since_last(self.name)}")
        return self.plan(context)

    def run_pending(self, context: HudiContext) -> TableProcess | Skip | None:
        """What to do about plans that are on the timeline; None: there are none, and we make none just now."""
        table = context.table
        planner = next((o for o in own_plannings(table, self.name) if not o.status.is_final), None)
        if planner is not None:
            return Skip(reason=f"operation {planner.id} plans and runs it ({planner.status})")
        plans = context.snapshot.pending_of(self.name)
        # A dropped operation had lost its plan: if the plan is there, it has come back.
        known = {o.instant: o for o in table.operations() if o.status is not Status.DROPPED or o.is_deleted}
        for plan in plans:
            if plan.instant not in known:
                since = f"since {plan.since:%Y-%m-%d %H:%M:%S} UTC: {plan.size}"
                reason = f"plan {plan.instant} is {plan.state} {since}"
                return self.process({"mode": EXECUTE}, reason, instant=plan.instant)
        return Skip(reason="; ".join(why_waiting(plan, known[plan.instant]) for plan in plans)) if plans else None

    def plan(self, context: HudiContext) -> TableProcess | Skip:
        lock = shared_lock(context.table.config)
        if isinstance(lock, NoLock):
            return Skip(reason=f"{self.name} is not planned beside the writer: {lock.reason}")
        if first := self.goes_first(context):
            return first
        need = self.decide(context)
        if isinstance(need, Skip):
            return need
        if self.why_stale and (waiting := wait_after_losses(context.table, self.name)):
            return waiting
        return self.process({"mode": PLAN_AND_EXECUTE, "seen": context.snapshot.timeline.newest_write}, need.reason)

    def admit(self, context: HudiContext, operation: Operation) -> kit.Admission:
        return (self.admit_planning if is_planning(operation) else self.admit_plan)(context, operation)

    def admit_plan(self, context: HudiContext, operation: Operation) -> kit.Admission:
        snapshot, instant = context.snapshot, operation.process.instant or operation.instant
        pending = [plan for plan in snapshot.pending_of(self.name) if plan.instant == instant]
        # A completed plan may be the work of our last attempt: the job finds nothing to do, and the timeline decides.
        is_perhaps_ours = operation.run_times > 0 and bool(snapshot.timeline.completed_at(instant))
        if not pending and not is_perhaps_ours:
            return Drop(reason=why_lost(context, instant))
        stale = self.stale_plans(snapshot, pending)
        if stale and not may_roll_back(context.table.config):
            return stale_failure(stale)
        if waiting := self.not_now(context) or wait_for_runners(context, pending):
            return waiting
        size = sum(plan.size.bytes for plan in pending)
        return self.complete(context, operation, instant=instant, stale=stale, size=size)

    def admit_planning(self, context: HudiContext, operation: Operation) -> kit.Admission:
        if operation.run_times and (done := self.unfinished(context.snapshot, operation.process)):
            return self.complete(context, operation, instant=done, stale={})
        pending, lock = context.snapshot.pending_of(self.name), shared_lock(context.table.config)
        stale = self.stale_plans(context.snapshot, pending)
        if stale and isinstance(lock, NoLock):
            return stale_failure(stale)
        if not pending and isinstance(lock, NoLock):
            return Drop(reason=f"no {self.name} plan is pending, and none is made beside the writer: {lock.reason}")
        if not pending and not context.by_person and isinstance(need := self.decide(context), Skip):
            return Drop(reason=f"no longer needed: {need.reason}")
        may_plan, waiting = not isinstance(lock, NoLock), self.not_now(context) or wait_for_runners(context, pending)
        return waiting or self.complete(context, operation, may_plan=may_plan, stale=stale)

    def stale_plans(self, snapshot: HudiSnapshot, plans: Iterable[PendingPlan]) -> dict[Instant, str]:
        """Plans that cannot succeed any more, with the reason."""
        if self.why_stale is None:
            return {}
        return {plan.instant: why for plan in plans if (why := self.why_stale(snapshot, plan))}

    def complete(
        self,
        context: HudiContext,
        operation: Operation,
        *,
        instant: Instant | None = None,
        may_plan: bool = False,
        stale: Mapping[Instant, str],
        size: int = 0,
    ) -> TableProcess | Skip:
        """The process with all that the job needs, from the table as it is now."""
        parameters = self.job_parameters(context, operation)
        if isinstance(parameters, Skip):
            return parameters
        parameters |= {"mode": EXECUTE if instant else PLAN_AND_EXECUTE, "instant": instant}
        if size:
            parameters[kit.ESTIMATE] = size
        parameters |= self.limits(context)
        if begun := [plan.instant for plan in context.snapshot.pending_of(self.name) if plan.state is State.INFLIGHT]:
            parameters["begun"] = [*begun]  # by an attempt of ours, or by somebody who is dead
        if self.why_stale:
            parameters["may_roll_back"] = may_roll_back(context.table.config)
            parameters["stale"] = {str(key): why for key, why in stale.items()}
        if not instant:
            parameters["may_plan"] = may_plan
            parameters["seen"] = context.snapshot.timeline.newest_write
            parameters["before"] = [*context.snapshot.instants_of(self.name)]
        return self.process(parameters, operation.process.reason, instant=instant, engine=operation.process.engine)


def enough_commits(
    context: HudiContext,
    threshold: kit.SettingRow[int],
    settings: kit.TriggerSettings | None = None,
    *,
    by_time: int = 1,
) -> kit.Need | Skip:
    """Counted from the last run or from what our last planning saw, so that one without effect is not repeated.

    ``by_time``: the commits that a run which only the age asks for must find.
    """
    snapshot, action, number = context.snapshot, context.action, context.values[threshold]
    plannings = own_plannings(context.table, action)
    last = next((o for o in plannings if o.status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)), None)
    seen = str(last.process.parameters.get("seen") or "") if last else ""
    trigger = context.trigger(settings) if settings else kit.Trigger(now=context.table.now)
    count, by_time = len(snapshot.unserved(action, seen)), min(number, by_time)
    since = snapshot.oldest_unserved(action, seen) if trigger.has_age and count >= by_time else None
    waiting = kit.Backlog(is_enough=count >= number, since=since)
    if trigger.is_due(waiting):
        return kit.Need(reason=f"{snapshot.since_last(action)}{trigger.why([waiting])}")
    after = f" or since operation {last.id} planned" if last and seen else ""
    least, what = trigger.least(number, by_time), snapshot.counted_for(action)
    return trigger.skip(f"{count} of {least} {what} since the last {action}{after}", [waiting])


def own_plannings(table: TableRuntime, action: Action) -> list[Operation]:
    """Operations that plan by themselves: plans on the timeline may be theirs, and they run the rest."""
    return [o for o in table.operations(action) if is_planning(o)]


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


def why_lost(context: HudiContext, instant: Instant) -> str:
    timeline, action = context.snapshot.timeline, context.action
    if completed := timeline.completed_at(instant):
        ours = (o for o in context.table.operations(action) if instant in items(o.result.get("instants")))
        who = next((f"operation {operation.id}" for operation in ours), "someone else")
        return f"{action} plan {instant} was completed by {who} as {completed[0].name}"
    if others := [file for file in timeline.files if file.instant == instant]:
        return f"there is no {action} plan {instant}: the timeline has {others[0].name}"
    if rollback := context.snapshot.rollback_of(instant):
        return f"{action} plan {instant} was rolled back ({rollback.name})"
    return f"{action} plan {instant} is gone from the timeline"


def may_roll_back(config: TableConfig) -> bool:
    """Only under the lock that the writers use, too."""
    return not isinstance(shared_lock(config), NoLock)


def stale_failure(stale: Mapping[Instant, str]) -> Failure:
    """Without a common lock nobody else may roll the plan back while a writer is at work."""
    why = next(iter(stale.values()))
    return Failure(
        reason="stale-plan",
        message=f"{why}; roll the plan back in Hudi, then plan anew, or configure the table's lock",
        remedy=Remedy.FATAL,
    )


def lost_plans(result: Mapping[str, Json]) -> dict[Instant, str]:
    return {Instant(str(key)): str(why) for key, why in fields(result.get(LOST)).items()}


def wait_after_losses(table: TableRuntime, action: Action) -> Skip | None:
    """After runs whose plans lost against a writer: wait, each time longer, and begin anew after a success."""
    since_success = takewhile(lambda o: o.status is not Status.SUCCEEDED, table.operations(action))
    lost = [o for o in since_success if o.status is Status.DROPPED and lost_plans(o.result)]
    if not lost:
        return None
    wait = back_off(len(lost), first=FIRST_BACK_OFF, longest=LONGEST_BACK_OFF)
    left = remaining(lost[0], wait, table.now)
    if left is None:
        return None
    times = f"the last {len(lost)} {action}s" if len(lost) > 1 else f"the last {action}"
    why = f"{times} lost against a writer in the same files (operation {lost[0].id})"
    wait_text = f"{left.total_seconds():.0f} s" if left < timedelta(minutes=2) else minutes(left)
    return Skip(reason=f"{why}; next attempt in {wait_text}", look_again=left)


def verify_plans(effect: HudiEffect) -> Verdict:
    """Success is a completed file on the timeline, whatever the engine says."""
    snapshot, process, result = effect.snapshot, effect.process, effect.result
    instants = instants_in(result.get("instants"))
    if not snapshot.timeline.files:
        return Verdict(finding=Finding.UNREADABLE, reason="the timeline is empty, which no table with a plan can be")
    if lost := lost_plans(result):
        return about_lost(snapshot, process, instants, lost)
    if process.parameters.get("mode") != PLAN_AND_EXECUTE:
        instant = Instant(str(process.instant or process.parameters.get("instant") or ""))
        return about_plan(snapshot, process, instant, is_claimed=instant in instants)
    if instants:
        return about_plans(snapshot, process, instants)
    return about_nothing(snapshot, process, has_ended="instants" in result)


def about_lost(
    snapshot: HudiSnapshot, process: TableProcess, instants: Sequence[Instant], lost: Mapping[Instant, str]
) -> Verdict:
    """Gone, unless a plan is still there; what else the same run completed counts as its work."""
    left = [plan.instant for plan in snapshot.pending_of(process.action) if plan.instant in lost]
    if left:
        return not_done(f"{process.action} plan {left[0]} is still pending")
    reason = "; ".join(lost.values())
    if not instants:
        return gone(reason)
    verdict = about_plans(snapshot, process, instants)
    return replace(verdict, reason=f"{verdict.reason}; {reason}")


def about_plan(snapshot: HudiSnapshot, process: TableProcess, instant: Instant, *, is_claimed: bool) -> Verdict:
    """``is_claimed``: the job says that it completed this plan."""
    done = snapshot.timeline.completed_at(instant)
    if len(done) > 1:
        names = ", ".join(file.name for file in done)
        return Verdict(
            finding=Finding.DONE, reason=f"{instant} was completed {len(done)} times ({names}): check the table"
        )
    if done:
        reason = f"{process.action} {instant} is completed as {done[0].name}"
        return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers_of(snapshot, done))
    if any(plan.instant == instant for plan in snapshot.pending_of(process.action)):
        return not_done(f"{process.action} plan {instant} is still pending")
    return about_absent(snapshot, process, instant, is_claimed=is_claimed)


def about_absent(snapshot: HudiSnapshot, process: TableProcess, instant: Instant, *, is_claimed: bool) -> Verdict:
    """Writers archive old instants, never pending ones."""
    oldest = snapshot.timeline.files[0].instant
    if is_claimed and in_order(instant) < in_order(oldest):
        reason = f"{process.action} {instant} was completed, and archived since: the active timeline begins at {oldest}"
        return Verdict(finding=Finding.DONE, reason=reason)
    if rollback := snapshot.rollback_of(instant):
        return gone(f"{process.action} plan {instant} was rolled back by someone else ({rollback.name})")
    return gone(f"{process.action} plan {instant} is gone from the timeline, which begins at {oldest}")


def about_plans(snapshot: HudiSnapshot, process: TableProcess, instants: Sequence[Instant]) -> Verdict:
    """The worst of all: one that is not done makes the whole not done."""
    verdicts = [about_plan(snapshot, process, instant, is_claimed=True) for instant in instants]
    bad = [v for v in verdicts if v.finding is Finding.NOT_DONE] or [v for v in verdicts if v.finding is Finding.GONE]
    if bad:
        return bad[0]
    done = [file for instant in instants for file in snapshot.timeline.completed_at(instant)]
    reason = "; ".join(v.reason for v in verdicts)
    return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers_of(snapshot, done))


def about_nothing(snapshot: HudiSnapshot, process: TableProcess, *, has_ended: bool) -> Verdict:
    """A job that ended without work is believed if no plan is left.

    Without a result, what was not there at admission and is completed now is the effect.
    """
    if left := snapshot.pending_of(process.action):
        return not_done(f"{process.action} plan {left[0].instant} is pending")
    if has_ended:
        return Verdict(finding=Finding.DONE, reason=f"nothing to do: Hudi made no {process.action} plan")
    before = instants_in(process.parameters.get("before"))
    if new := [instant for instant in snapshot.instants_of(process.action) if instant not in before]:
        return about_plans(snapshot, process, new)
    return not_done(f"no {process.action} was planned or completed")


def numbers_of(snapshot: HudiSnapshot, done: Sequence[TimelineFile]) -> dict[str, Json]:
    """What the work wrote or deleted. An unreadable commit takes nothing away from its being there."""
    total: dict[str, int] = {}
    for file in done:
        try:
            document = snapshot.document(file)
        except OSError:
            continue
        counted = clean_numbers(document) if file.action == "clean" else commit_numbers(document)
        total = {key: total.get(key, 0) + counted.get(key, 0) for key in {**total, **counted}}
    return {"completed": [file.name for file in done], **total}
