# SPDX-License-Identifier: Apache-2.0
"""Index building: the indexes of the metadata table that someone asked for, by a setting or by a plan on the timeline.

The one action that adds to ``hoodie.table.metadata.partitions``, and only what was asked for. A writer that has an
index off drops it at its next commit, so the table must say that its writers keep it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from lakehand.formats.hudi.actions import PLAN_AND_EXECUTE, is_planning
from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.planned import PlannedAction, verify_plans
from lakehand.formats.hudi.plans import planned_indexes
from lakehand.formats.hudi.snapshot import INDEXING, HudiSnapshot
from lakehand.formats.hudi.timeline import PLAIN_WRITES, State
from lakehand.formats.hudi.turns import MUCH_LATER, clustering_first
from lakehand.spi import Finding, Invalid, Json, Operation, Scheduling, Skip, Status, TableProcess, Verdict, kit
from lakehand.spi.kit.conversions import fields, items
from lakehand.spi.kit.verdicts import not_done
from lakehand.spi.pauses import pause

INDEXES = kit.columns_setting(
    "hudi.indexing.indexes",
    "indexes of the metadata table to build: `column_stats`, `bloom_filters`, `record_index`; none are built otherwise",
)
WRITERS_MAINTAIN = kit.flag_setting(
    "hudi.indexing.writers-maintain",
    "true: all writers of the table have these indexes on. Others drop them at their next commit", default=False,
)  # fmt: skip

CATCH_UP = timedelta(minutes=15)  # Hudi's time-out
KNOWN = ("column_stats", "bloom_filters", "record_index")
SWITCHES = {
    "column_stats": ("hoodie.metadata.index.column.stats.enable",),
    "bloom_filters": ("hoodie.metadata.index.bloom.filter.enable",),
    "record_index": ("hoodie.metadata.global.record.level.index.enable", "hoodie.metadata.record.index.enable"),
}


class IndexingAction(PlannedAction):
    """As the others with plans, but what is built must be asked for and kept by the writers."""

    def trigger(self, context: HudiContext) -> TableProcess | Skip:
        if why := why_impossible(context.snapshot):
            return Skip(reason=why)
        if found := self.run_pending(context):
            return found
        need = self.decide(context)
        if isinstance(need, Skip):
            return need
        return self.process({"mode": PLAN_AND_EXECUTE, **need.parameters}, need.reason)

    def admit(self, context: HudiContext, operation: Operation) -> kit.Admission:
        if why := why_impossible(context.snapshot):
            return kit.refusal(operation, why)
        if waiting := wait_for_builder(context, operation) or wait_for_write(context):
            return waiting
        if is_planning(operation):
            return self.admit_planning(context, operation)
        if isinstance(lock := shared_lock(context.table.config), NoLock):
            reason = f"no index is built without the lock of the writers, whose commits must be in it: {lock.reason}"
            return Skip(reason=reason, look_again=MUCH_LATER)
        plans_left = context.snapshot.pending_of(INDEXING)
        names = [name for plan in plans_left for name in planned_indexes(plan.document)]
        if unknown := [name for name in names if name not in KNOWN]:
            why = f"a plan builds {unknown[0]!r}, and this service builds {', '.join(KNOWN)}"
            return Skip(reason=why, look_again=MUCH_LATER)
        return with_indexes(self.admit_plan(context, operation), names)

    def admit_planning(self, context: HudiContext, operation: Operation) -> kit.Admission:
        """What is missing now is built. After an attempt of ours, none may be: then the job finds nothing to do."""
        missing = missing_indexes(context)
        if isinstance(missing, Skip) and not context.was_tried:
            return kit.refusal(operation, missing.reason)
        names: Sequence[str] = wanted_indexes(context) if isinstance(missing, Skip) else missing
        if why := why_not_ours(context, names):
            return kit.refusal(operation, why)
        process = self.complete(context, operation, may_plan=not isinstance(missing, Skip), stale={})
        return with_indexes(process, names)


def decide(context: HudiContext) -> kit.Need | Skip:
    missing = missing_indexes(context)
    if isinstance(missing, Skip):
        return missing
    if why := why_not_ours(context, missing):
        return Skip(reason=why)
    if waiting := pause(context.table, INDEXING):
        return waiting
    wanted = wanted_indexes(context)
    reason = f"{len(missing)} of {len(wanted)} indexes that are asked for are missing: {', '.join(missing)}"
    return kit.Need(reason=reason, parameters={"indexes": list(missing)})


def why_impossible(snapshot: HudiSnapshot) -> str | None:
    if "files" not in snapshot.metadata_partitions:
        return "the table has no metadata table, and none is made for it: its writers would not keep it up to date"
    return None


def wanted_indexes(context: HudiContext) -> tuple[str, ...]:
    wanted = context.values[INDEXES]
    if unknown := [name for name in wanted if name not in KNOWN]:
        raise Invalid(f"{INDEXES.key} has {unknown[0]!r}: use {', '.join(KNOWN)}")
    return wanted


def missing_indexes(context: HudiContext) -> Sequence[str] | Skip:
    wanted, present = wanted_indexes(context), context.snapshot.metadata_partitions
    has = f"the table has {len(present)}: {', '.join(present)}"
    if not wanted:
        return Skip(reason=f"no index is asked for: {INDEXES.key} is empty, and no plan is pending; {has}")
    missing = [name for name in wanted if name not in present]
    return missing or Skip(reason=f"all {len(wanted)} indexes that are asked for are there; {has}")


def why_not_ours(context: HudiContext, missing: Sequence[str]) -> str | None:
    lock = shared_lock(context.table.config)
    if not context.values[WRITERS_MAINTAIN]:
        return (
            f"{', '.join(missing)} is not built: a writer that has an index off drops it at its next commit. Turn it "
            f"on in all writers of the table, then set {WRITERS_MAINTAIN.key}=true"
        )
    if isinstance(lock, NoLock):
        return f"{INDEXING} is not planned beside the writer: {lock.reason}"
    if context.table.table.spec.scheduling is Scheduling.WRITER and not context.by_person:
        return f"{INDEXING} is left to the writer: set scheduling = service to have {', '.join(missing)} built here"
    return None if context.by_person else why_dropped(context, missing)


def why_dropped(context: HudiContext, missing: Sequence[str]) -> str | None:
    """An index that we have built and that is gone again would be built and dropped forever."""
    for operation in context.table.operations(INDEXING):
        built = [name for name in items(operation.result.get("built")) if name in missing]
        if operation.status is Status.SUCCEEDED and built:
            return (
                f"operation {operation.id} built {built[0]}, and it is gone: a writer has dropped it. Turn it on "
                f"there, then: lakehand operations submit {context.table.table.id} {INDEXING}"
            )
    return None


def wait_for_builder(context: HudiContext, operation: Operation) -> Skip | None:
    """An index that is half built belongs to whoever builds it: to an earlier attempt of ours, or to someone else."""
    begun = next((plan for plan in context.snapshot.pending_of(INDEXING) if plan.state is State.INFLIGHT), None)
    if operation.run_times > 0 or not (begun or context.snapshot.unfinished_metadata_partitions):
        return None
    since = f" since {begun.since:%Y-%m-%d %H:%M:%S} UTC" if begun else ""
    reason = f"an index is being built by someone{since}; if that has died, drop the index in Hudi"
    return Skip(reason=reason, look_again=MUCH_LATER)


def wait_for_write(context: HudiContext) -> Skip | None:
    """Hudi's build waits for each write that is under way, for fifteen minutes, and fails if one is still there."""
    for file in context.snapshot.timeline.pending():
        if file.action in PLAIN_WRITES and context.table.now - file.modified > CATCH_UP:
            since = f"since {file.modified:%Y-%m-%d %H:%M:%S} UTC"
            reason = f"write {file.instant} is under way {since}: no index is built before it ends or is rolled back"
            return Skip(reason=reason, look_again=MUCH_LATER)
    return None


def with_indexes(admitted: kit.Admission, names: Sequence[str]) -> kit.Admission:
    """The process with these indexes turned on; all others stay as the table has them."""
    if not isinstance(admitted, TableProcess):
        return admitted
    switches = {switch: "true" for name in names for switch in SWITCHES[name]}
    options: dict[str, Json] = {**fields(admitted.parameters["options"]), **switches}
    return replace(admitted, parameters={**admitted.parameters, "indexes": list(names), "options": options})


def verify(effect: HudiEffect) -> Verdict:
    """The completed instant, and the table's own list of indexes, which Hudi writes first."""
    verdict = verify_plans(effect)
    if verdict.finding is not Finding.DONE:
        return verdict
    names = {str(name) for name in items(verdict.numbers.get("completed"))}
    files = [file for file in effect.snapshot.timeline.completed("indexing") if file.name in names]
    built = [name for file in files for name in planned_indexes(effect.snapshot.document(file))]
    present, unfinished = effect.snapshot.metadata_partitions, effect.snapshot.unfinished_metadata_partitions
    if half := [name for name in built if name in unfinished]:
        return not_done(f"the index {half[0]} is still being built")
    lost = [name for name in built if name not in present]
    text = f"; {lost[0]} is gone again: a writer that has it off dropped it" if lost else ""
    indexes = f"; the table has {', '.join(present)}" if built else ""
    numbers = {**verdict.numbers, "built": built}
    return replace(verdict, reason=f"{verdict.reason}{indexes}{text}", numbers=numbers)


ACTION = IndexingAction(
    name=INDEXING, settings=(INDEXES, WRITERS_MAINTAIN), decide=decide, not_now=clustering_first, verify=verify
)
