# SPDX-License-Identifier: Apache-2.0
"""Admission, right before an engine gets the work: is the plan still there, is it its turn, and with which options."""

from collections.abc import Mapping
from datetime import timedelta

from lakehand.formats.hudi import settings
from lakehand.formats.hudi.conflicts import (
    conflict_options,
    may_roll_back,
    rolled_back_by,
    stale_failure,
    stale_plans,
)
from lakehand.formats.hudi.decisions import EXECUTE, PLAN_AND_EXECUTE, switched_off, why_never, why_too_few
from lakehand.formats.hudi.locks import NoLock, for_clean, lock_options, operators_path, shared_lock
from lakehand.formats.hudi.settings import HudiContext
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.writer_options import writer_options
from lakehand.formats.hudi.writers import codec_options, fresh_for, heartbeat_options
from lakehand.spi import Action, Drop, Failure, Instant, Json, Operation, Skip, TableProcess, TableRuntime
from lakehand.spi.kit import Admission, Values, refused

SOON = timedelta(seconds=15)
LATER = timedelta(minutes=1)
MUCH_LATER = timedelta(minutes=10)
IDENTITY = ("hoodie.database.name", "hoodie.table.name", "hoodie.table.type")
KEPT = ("resource", "parallelism")  # of a request: for engines that size each job


def admit(context: HudiContext, operation: Operation) -> Admission:
    table, snapshot, values, action = context.table, context.snapshot, context.values, context.action
    if off := switched_off(values, action):
        return not_done(operation, off)
    if context.is_dry_run:
        return refused(operation, f"{action} has no dry run")
    if why := why_never(snapshot, action, values):
        return Skip(reason=why, look_again=MUCH_LATER)
    if unfinished := snapshot.unfinished_metadata_partitions:
        return Skip(reason=f"the metadata index {unfinished[0]!r} is being built by someone", look_again=LATER)
    if is_planning(operation):
        return admit_planning(table, snapshot, operation, values)
    return admit_plan(table, snapshot, operation, values)


def is_planning(operation: Operation) -> bool:
    """Whether the work is planned by us; otherwise it is a plan that a writer left on the timeline."""
    return operation.process.parameters.get("mode") == PLAN_AND_EXECUTE


def not_done(operation: Operation, why: str) -> Skip | Drop | Failure:
    """A plan on the timeline waits until the settings are changed; a request for a new one is refused."""
    return refused(operation, why) if is_planning(operation) else Skip(reason=why, look_again=MUCH_LATER)


def admit_plan(table: TableRuntime, snapshot: HudiSnapshot, operation: Operation, values: Values) -> Admission:
    action, instant = operation.process.action, operation.process.instant or operation.instant
    is_pending = any(plan.instant == instant for plan in snapshot.pending_of(action))
    # After an attempt of ours, a completed plan may be its work: the job finds nothing to do and the timeline decides.
    is_perhaps_ours = operation.run_times > 0 and bool(snapshot.timeline.completed_at(instant))
    if not is_pending and not is_perhaps_ours:
        return Drop(reason=why_lost(table, snapshot, action, instant))
    stale = stale_plans(snapshot, [plan for plan in snapshot.pending_of(action) if plan.instant == instant])
    if stale and not may_roll_back(table.config):
        return stale_failure(stale)
    hindrance = whose_turn(table, snapshot, action, values) or who_runs(table, snapshot, instant)
    return hindrance or complete(table, snapshot, operation, values, instant=instant, stale=stale)


def why_lost(table: TableRuntime, snapshot: HudiSnapshot, action: Action, instant: Instant) -> str:
    if done := snapshot.timeline.completed_at(instant):
        return f"{action} plan {instant} was completed by {who_did(table, action, instant)} as {done[0].name}"
    others = [file for file in snapshot.timeline.files if file.instant == instant]
    if others:
        return f"{instant} is no {action} plan: the timeline has {others[0].name}"
    if rollback := rolled_back_by(snapshot, instant):
        return f"{action} plan {instant} was rolled back ({rollback.name})"
    return f"{action} plan {instant} is gone from the timeline"


def who_did(table: TableRuntime, action: Action, instant: Instant) -> str:
    for operation in table.operations(action):
        instants = operation.result.get("instants")
        if isinstance(instants, list) and instant in instants:
            return f"operation {operation.id}"
    return "someone else"


def admit_planning(table: TableRuntime, snapshot: HudiSnapshot, operation: Operation, values: Values) -> Admission:
    action = operation.process.action
    lock = shared_lock(table.config)
    stale = stale_plans(snapshot, snapshot.pending_of(action))
    if stale and isinstance(lock, NoLock):
        return stale_failure(stale)
    if not snapshot.pending_of(action):
        if isinstance(lock, NoLock):
            return Drop(reason=f"no {action} plan is pending, and none is made beside the writer: {lock.reason}")
        too_few = why_too_few(table, snapshot, action, values)
        if operation.origin == "coordinator" and too_few:
            return Drop(reason=f"no longer needed: {too_few}")
    may_plan = not isinstance(lock, NoLock)
    return whose_turn(table, snapshot, action, values) or complete(
        table, snapshot, operation, values, may_plan=may_plan, stale=stale
    )


def whose_turn(table: TableRuntime, snapshot: HudiSnapshot, action: Action, values: Values) -> Skip | None:
    """Clustering first: it blocks upserts. Clean never before a pending compaction, whose log files it may take."""
    if action != CLUSTERING and (blocking := clusterings_to_come(table, snapshot, values)):
        return Skip(reason=f"clustering plan {blocking[0]} goes first: it blocks the writer", look_again=SOON)
    if action == CLEAN and (plans := snapshot.pending_of(COMPACTION)):
        return Skip(reason=f"compaction plan {plans[0].instant} is pending: no clean before it", look_again=LATER)
    return None


def who_runs(table: TableRuntime, snapshot: HudiSnapshot, instant: Instant) -> Skip | None:
    """Hudi would refuse it as well, but only after a start, and the attempt would count."""
    left = fresh_for(snapshot, instant, table.now, table.config)
    if left is None:
        return None
    seconds = left.total_seconds()
    reason = f"a heartbeat of {instant} is fresh: someone runs it, or died with it; Hudi waits {seconds:.0f} s more"
    return Skip(reason=reason, look_again=min(left + timedelta(seconds=1), LATER))


def clusterings_to_come(table: TableRuntime, snapshot: HudiSnapshot, values: Values) -> list[Instant]:
    """Pending clustering plans that we will run; those that failed or are not ours to run block nobody."""
    if CLUSTERING not in table.table.spec.action_types or switched_off(values, CLUSTERING):
        return []
    ended = {o.instant for o in table.operations(CLUSTERING) if o.status.is_final}
    return [plan.instant for plan in snapshot.pending_of(CLUSTERING) if plan.instant not in ended]


def complete(
    table: TableRuntime,
    snapshot: HudiSnapshot,
    operation: Operation,
    values: Values,
    *,
    instant: Instant | None = None,
    may_plan: bool = False,
    stale: Mapping[Instant, str] | None = None,
) -> TableProcess | Skip:
    """The process with all that the job needs, from the table as it is now."""
    action, asked = operation.process.action, operation.process.parameters
    options = execution_options(table, snapshot, operation)
    if isinstance(options, NoLock):
        return Skip(reason=options.reason, look_again=MUCH_LATER)
    parameters: dict[str, Json] = {
        **{key: asked[key] for key in KEPT if key in asked},
        "location": table.table.location,
        "identity": identity(snapshot),
        "mode": EXECUTE if instant else PLAN_AND_EXECUTE,
        "instant": instant,
        "options": dict(options),
        "operators_lock_path": operators_path(table.config),
        **specifics(action, values),
    }
    if action == CLUSTERING:
        parameters |= {
            "may_roll_back": may_roll_back(table.config),
            "stale": {str(key): why for key, why in (stale or {}).items()},
        }
    if not instant:
        parameters["may_plan"] = may_plan
        parameters["seen"] = snapshot.timeline.newest_write
        parameters["before"] = [*snapshot.instants_of(action)]
    return TableProcess(
        action=action,
        job=f"hudi.{action}",
        engine=operation.process.engine,
        instant=instant,
        parameters=parameters,
        urgent=action == CLUSTERING,
        reason=operation.process.reason,
    )


def identity(snapshot: HudiSnapshot) -> str:
    """Hudi gives its tables no identifier of their own: what they are called and of which type must do."""
    return " ".join(snapshot.properties.get(key) or "-" for key in IDENTITY)


def execution_options(table: TableRuntime, snapshot: HudiSnapshot, operation: Operation) -> dict[str, str] | NoLock:
    lock = lock_options(table.table.location, table.config)
    if isinstance(lock, NoLock):
        return lock
    if operation.process.action == CLEAN:
        lock = for_clean(lock, table.config)
    asked = operation.process.parameters.get("options") or operation.process.parameters.get("extra_params")
    return {
        **codec_options(snapshot, operation.process.action),
        **settings.tuned(table.config.starting_with("hoodie.")),
        **settings.tuned(asked if isinstance(asked, dict) else {}),
        **writer_options(snapshot),
        **heartbeat_options(table.config),
        **lock,
        **conflict_options(operation.process.action),
    }


def specifics(action: Action, values: Values) -> dict[str, Json]:
    if action == CLUSTERING:
        return settings.order(values)
    return {"retain_commits": values[settings.RETAIN]} if action == CLEAN else {}
