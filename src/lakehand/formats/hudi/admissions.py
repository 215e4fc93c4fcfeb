# SPDX-License-Identifier: Apache-2.0
"""Admission, right before an engine gets the work: is the plan still there, is it its turn, and with which options."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from lakehand.formats.hudi import indexes, settings
from lakehand.formats.hudi.conflicts import (
    MAY_BE_STALE,
    WRITER_WINS,
    may_roll_back,
    rolled_back_by,
    stale_failure,
    stale_plans,
)
from lakehand.formats.hudi.decisions import EXECUTE, PLAN_AND_EXECUTE, process, switched_off, why_too_few
from lakehand.formats.hudi.locks import NoLock, for_clean, lock_options, operators_folders, operators_path, shared_lock
from lakehand.formats.hudi.log_compaction import wait_for_others
from lakehand.formats.hudi.settings import HudiContext
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, LOG_COMPACTION
from lakehand.formats.hudi.writer_options import writer_options
from lakehand.formats.hudi.writers import codec_options, fresh_for, heartbeat_options
from lakehand.spi import Action, Drop, Failure, Instant, Json, Operation, Skip, TableProcess
from lakehand.spi.kit import ESTIMATE, Admission, refusal
from lakehand.spi.kit.conversions import fields, items

SOON = timedelta(seconds=15)
LATER = timedelta(minutes=1)
MUCH_LATER = timedelta(minutes=10)
IDENTITY = ("hoodie.database.name", "hoodie.table.name", "hoodie.table.type")
KEPT = ("resource", "parallelism")  # of a request: for engines that size each job
AFTER_COMPACTION = (CLEAN, LOG_COMPACTION)
# What the jobs of some actions get beside what all get.
OF_ACTION: Mapping[Action, Callable[[HudiContext], Mapping[str, Json]]] = {
    COMPACTION: indexes.job_parameters,
    CLUSTERING: lambda context: settings.order(context.values),
    CLEAN: lambda context: {"retain_commits": context.values[settings.RETAIN]},
    LOG_COMPACTION: lambda context: {"min_blocks": context.values[settings.MIN_BLOCKS]},
}


def admit(context: HudiContext, operation: Operation) -> Admission:
    """For actions whose plans are on the timeline."""
    return admit_planning(context, operation) if is_planning(operation) else admit_plan(context, operation)


def is_planning(operation: Operation) -> bool:
    """Whether the work is planned by us; otherwise it is a plan that a writer left on the timeline."""
    return operation.process.parameters.get("mode") == PLAN_AND_EXECUTE


def not_done(operation: Operation, why: str) -> Skip | Drop | Failure:
    """A plan on the timeline waits until the settings are changed; a request for a new one is refused."""
    return refusal(operation, why) if is_planning(operation) else Skip(reason=why, look_again=MUCH_LATER)


def admit_plan(context: HudiContext, operation: Operation) -> Admission:
    snapshot, instant = context.snapshot, operation.process.instant or operation.instant
    pending = [plan for plan in snapshot.pending_of(context.action) if plan.instant == instant]
    # After an attempt of ours, a completed plan may be its work: the job finds nothing to do and the timeline decides.
    is_perhaps_ours = operation.run_times > 0 and bool(snapshot.timeline.completed_at(instant))
    if not pending and not is_perhaps_ours:
        return Drop(reason=why_lost(context, instant))
    stale = stale_plans(snapshot, pending)
    if stale and not may_roll_back(context.table.config):
        return stale_failure(stale)
    hindrance = wait_for_turn(context) or (wait_for_runner(context, instant) if pending else None)
    if hindrance:
        return hindrance
    size = sum(plan.size.bytes for plan in pending)
    return complete(context, operation, instant=instant, stale=stale, size=size)


def why_lost(context: HudiContext, instant: Instant) -> str:
    timeline, action = context.snapshot.timeline, context.action
    if completed := timeline.completed_at(instant):
        ours = (o for o in context.table.operations(action) if instant in items(o.result.get("instants")))
        who = next((f"operation {operation.id}" for operation in ours), "someone else")
        return f"{action} plan {instant} was completed by {who} as {completed[0].name}"
    if others := [file for file in timeline.files if file.instant == instant]:
        return f"{instant} is no {action} plan: the timeline has {others[0].name}"
    if rollback := rolled_back_by(context.snapshot, instant):
        return f"{action} plan {instant} was rolled back ({rollback.name})"
    return f"{action} plan {instant} is gone from the timeline"


def admit_planning(context: HudiContext, operation: Operation) -> Admission:
    if operation.run_times and (done := indexes.unsearched(context.snapshot, operation.process)):
        return complete(context, operation, instant=done, stale={})
    action, pending = context.action, context.snapshot.pending_of(context.action)
    lock = shared_lock(context.table.config)
    stale = stale_plans(context.snapshot, pending)
    if stale and isinstance(lock, NoLock):
        return stale_failure(stale)
    if not pending and isinstance(lock, NoLock):
        return Drop(reason=f"no {action} plan is pending, and none is made beside the writer: {lock.reason}")
    if not pending and not context.by_person and (too_few := why_too_few(context)):
        return Drop(reason=f"no longer needed: {too_few}")
    may_plan = not isinstance(lock, NoLock)
    return wait_for_turn(context) or complete(context, operation, may_plan=may_plan, stale=stale)


def wait_for_turn(context: HudiContext) -> Skip | None:
    """Clustering first: it blocks upserts. Clean never before a pending compaction, whose log files it may take.

    Neither does a log compaction go before one: what the compaction merges need not be merged twice.
    """
    if context.action != CLUSTERING and (blocking := clusterings_to_come(context)):
        return Skip(reason=f"clustering plan {blocking[0]} goes first: it blocks the writer", look_again=SOON)
    if context.action in AFTER_COMPACTION and (plans := context.snapshot.pending_of(COMPACTION)):
        why = f"compaction plan {plans[0].instant} is pending: no {context.action} before it"
        return Skip(reason=why, look_again=LATER)
    return wait_for_others(context) if context.action == LOG_COMPACTION else None


def wait_for_runner(context: HudiContext, instant: Instant) -> Skip | None:
    """Hudi would refuse it as well, but only after a start, and the attempt would count."""
    left = fresh_for(context.snapshot, instant, context.table.now, context.table.config)
    if left is None:
        return None
    seconds = left.total_seconds()
    reason = f"a heartbeat of {instant} is fresh: someone runs it, or died with it; Hudi waits {seconds:.0f} s more"
    return Skip(reason=reason, look_again=min(left + timedelta(seconds=1), LATER))


def clusterings_to_come(context: HudiContext) -> list[Instant]:
    """Pending clustering plans that we will run; those that failed or are not ours to run block nobody."""
    if CLUSTERING not in context.table.table.spec.action_types or switched_off(context, CLUSTERING):
        return []
    ended = {o.instant for o in context.table.operations(CLUSTERING) if o.status.is_final}
    return [plan.instant for plan in context.snapshot.pending_of(CLUSTERING) if plan.instant not in ended]


def complete(
    context: HudiContext,
    operation: Operation,
    *,
    instant: Instant | None = None,
    may_plan: bool = False,
    stale: Mapping[Instant, str],
    size: int = 0,
) -> TableProcess | Skip:
    """The process with all that the job needs, from the table as it is now."""
    table, snapshot, action = context.table, context.snapshot, context.action
    parameters = job_parameters(context, operation)
    if isinstance(parameters, Skip):
        return parameters
    parameters |= {"mode": EXECUTE if instant else PLAN_AND_EXECUTE, "instant": instant}
    if size:
        parameters[ESTIMATE] = size
    if action in OF_ACTION:
        parameters |= OF_ACTION[action](context)
    if action in MAY_BE_STALE:
        parameters["may_roll_back"] = may_roll_back(table.config)
        parameters["stale"] = {str(key): why for key, why in stale.items()}
    if not instant:
        parameters["may_plan"] = may_plan
        parameters["seen"] = snapshot.timeline.newest_write
        parameters["before"] = [*snapshot.instants_of(action)]
    return process(action, parameters, operation.process.reason, instant=instant, engine=operation.process.engine)


def job_parameters(context: HudiContext, operation: Operation) -> dict[str, Json] | Skip:
    """What every job of Hudi must know."""
    table, requested = context.table, operation.process.parameters
    options = execution_options(context, operation)
    if isinstance(options, NoLock):
        return Skip(reason=options.reason, look_again=MUCH_LATER)
    return {
        **{key: requested[key] for key in KEPT if key in requested},
        "location": table.table.location,
        # Hudi gives its tables no identifier of their own: what they are called and of which type must do.
        "identity": " ".join(context.snapshot.properties.get(key) or "-" for key in IDENTITY),
        "options": dict(options),
        "operators_lock_path": operators_path(table.config),
        "operators_lock_folders": list[Json](operators_folders(table.config)),
    }


def execution_options(context: HudiContext, operation: Operation) -> dict[str, str] | NoLock:
    config, requested = context.table.config, operation.process.parameters
    lock = lock_options(context.table.table.location, config)
    if isinstance(lock, NoLock):
        return lock
    return {
        **codec_options(context.snapshot, context.action),
        **settings.tunable_options(config.starting_with("hoodie.")),
        **settings.tunable_options(fields(requested.get("options") or requested.get("extra_params"))),
        **writer_options(context.snapshot),
        **heartbeat_options(config),
        **(for_clean(lock, config) if context.action == CLEAN else lock),
        **(WRITER_WINS if context.action == CLUSTERING else {}),
    }
