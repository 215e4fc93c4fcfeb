# SPDX-License-Identifier: Apache-2.0
"""What the timeline says about a process: success is a completed file, whatever the engine says; and why one failed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from lakehand.formats.hudi import plans
from lakehand.formats.hudi.conflicts import lost_plans, rolled_back_by
from lakehand.formats.hudi.decisions import PLAN_AND_EXECUTE
from lakehand.formats.hudi.indexes import SEE, about_stray_keys, unsearched
from lakehand.formats.hudi.snapshot import CLEAN, HudiSnapshot
from lakehand.formats.hudi.timeline import TimelineFile, in_order
from lakehand.spi import Finding, Instant, Json, Remedy, TableProcess, Verdict, kit
from lakehand.spi.kit.conversions import items
from lakehand.spi.kit.verdicts import gone, not_done

RULES = (
    kit.rule(
        r"due to heartbeat by concurrent writer/job", "heartbeat", Remedy.NOT_YET, delay=timedelta(seconds=30),
        advice="another runner has the plan, or one that was killed in the last two minutes had it",
    ),
    kit.rule(
        r"unable to acquire (the )?lock|HoodieLockException|FAILED_TO_ACQUIRE", "lock-held", Remedy.NOT_YET,
        delay=timedelta(seconds=30), advice="someone holds the table's lock",
    ),
    kit.rule(r"rollbacks\.WriterBusy", "writer-busy", Remedy.NOT_YET, delay=timedelta(seconds=15)),
    kit.rule(
        r"instants is not exist|is not present as pending or already completed", "plan-not-pending",
        delay=timedelta(seconds=5),
    ),
    kit.rule(
        r"compaction instant with greater timestamp", "stale-plan", Remedy.FATAL,
        advice="a compaction is newer than this log compaction, which was begun: Hudi runs and removes it never",
    ),
    kit.rule(
        r"DeletePartition(PendingTableService)?Exception.*pending table service", "plan-pending", Remedy.NOT_YET,
        delay=timedelta(minutes=1), advice="a pending plan names the partition, and goes first",
    ),
    kit.table_missing(r"TableNotFoundException", "Hudi"),
    kit.class_missing(r"Unable to (instantiate|load) class"),
    kit.rule(
        r"HoodieUpgradeDowngradeException|unknown.{0,40}version|version.{0,60}not supported|unsupported.{0,40}version",
        "version-unknown", Remedy.FATAL, advice="the table is newer or older than the engine's Hudi can write",
    ),
    kit.rule(
        r"HoodieClusteringUpdateException|WriteConflictException|ConcurrentModificationException", "write-conflict"
    ),
)  # fmt: skip


def verify(effect: kit.Effect[HudiSnapshot]) -> Verdict:
    """For actions whose plans are on the timeline."""
    verdict = verify_plans(effect)
    is_lost = verdict.finding is Finding.DONE and "instants" not in effect.result
    if is_lost and (instant := unsearched(effect.snapshot, effect.process)):
        return not_done(
            f"{verdict.reason}; nobody has looked yet whether {instant} left keys in log files alone; {SEE}"
        )
    return replace(verdict, reason=f"{verdict.reason}{about_stray_keys(effect.result)}")


def verify_plans(effect: kit.Effect[HudiSnapshot]) -> Verdict:
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
        return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers_of(snapshot, process, done))
    if any(plan.instant == instant for plan in snapshot.pending_of(process.action)):
        return not_done(f"{process.action} plan {instant} is still pending")
    return about_absent(snapshot, process, instant, is_claimed=is_claimed)


def about_absent(snapshot: HudiSnapshot, process: TableProcess, instant: Instant, *, is_claimed: bool) -> Verdict:
    """Writers archive old instants, never pending ones."""
    oldest = snapshot.timeline.files[0].instant
    if is_claimed and in_order(instant) < in_order(oldest):
        reason = f"{process.action} {instant} was completed, and archived since: the active timeline begins at {oldest}"
        return Verdict(finding=Finding.DONE, reason=reason)
    if rollback := rolled_back_by(snapshot, instant):
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
    return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers_of(snapshot, process, done))


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


def numbers_of(snapshot: HudiSnapshot, process: TableProcess, done: Sequence[TimelineFile]) -> dict[str, Json]:
    """What the work wrote or deleted. An unreadable commit takes nothing away from its being there."""
    total: dict[str, int] = {}
    for file in done:
        try:
            document = snapshot.document(file)
        except OSError:
            continue
        counted = plans.clean_numbers(document) if process.action == CLEAN else plans.commit_numbers(document)
        total = {key: total.get(key, 0) + counted.get(key, 0) for key in {**total, **counted}}
    return {"completed": [file.name for file in done], **total}


def instants_in(value: Json) -> list[Instant]:
    return [Instant(str(item)) for item in items(value)]
