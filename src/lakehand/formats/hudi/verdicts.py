# SPDX-License-Identifier: Apache-2.0
"""What the timeline says about a process: success is a completed file, whatever the engine says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehand.formats.hudi import plans
from lakehand.formats.hudi.conflicts import lost_plans, rolled_back_by
from lakehand.formats.hudi.decisions import PLAN_AND_EXECUTE
from lakehand.formats.hudi.snapshot import CLEAN, HudiSnapshot
from lakehand.formats.hudi.timeline import TimelineFile, in_order
from lakehand.spi import Finding, Instant, Json, TableProcess, Verdict


def verify(snapshot: HudiSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    instants = texts(result.get("instants"))
    if not snapshot.timeline.files:
        return Verdict(finding=Finding.UNREADABLE, reason="the timeline is empty, which no table with a plan can be")
    if lost := lost_plans(result):
        return about_lost(snapshot, process, instants, lost)
    if process.parameters.get("mode") != PLAN_AND_EXECUTE:
        instant = Instant(str(process.instant or process.parameters.get("instant") or ""))
        return about_plan(snapshot, process, instant, is_claimed=instant in instants)
    if instants:
        return about_plans(snapshot, process, instants)
    return about_nothing(snapshot, process) if "instants" in result else after_a_loss(snapshot, process)


def about_lost(
    snapshot: HudiSnapshot, process: TableProcess, instants: Sequence[Instant], lost: Mapping[Instant, str]
) -> Verdict:
    """Gone, unless a plan is still there; what else the same run completed counts as its work."""
    left = [plan.instant for plan in snapshot.pending_of(process.action) if plan.instant in lost]
    if left:
        return Verdict(finding=Finding.NOT_DONE, reason=f"{process.action} plan {left[0]} is still pending")
    reason = "; ".join(lost.values())
    if not instants:
        return Verdict(finding=Finding.GONE, reason=reason)
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
        return Verdict(finding=Finding.NOT_DONE, reason=f"{process.action} plan {instant} is still pending")
    return about_absent(snapshot, process, instant, is_claimed=is_claimed)


def about_absent(snapshot: HudiSnapshot, process: TableProcess, instant: Instant, *, is_claimed: bool) -> Verdict:
    """Writers archive old instants, never pending ones."""
    oldest = snapshot.timeline.files[0].instant
    if is_claimed and in_order(instant) < in_order(oldest):
        reason = f"{process.action} {instant} was completed, and archived since: the active timeline begins at {oldest}"
        return Verdict(finding=Finding.DONE, reason=reason)
    if rollback := rolled_back_by(snapshot, instant):
        reason = f"{process.action} plan {instant} was rolled back by someone else ({rollback.name})"
        return Verdict(finding=Finding.GONE, reason=reason)
    reason = f"{process.action} plan {instant} is gone from the timeline, which begins at {oldest}"
    return Verdict(finding=Finding.GONE, reason=reason)


def about_plans(snapshot: HudiSnapshot, process: TableProcess, instants: Sequence[Instant]) -> Verdict:
    """The worst of all: one that is not done makes the whole not done."""
    verdicts = [about_plan(snapshot, process, instant, is_claimed=True) for instant in instants]
    bad = [v for v in verdicts if v.finding is Finding.NOT_DONE] or [v for v in verdicts if v.finding is Finding.GONE]
    if bad:
        return bad[0]
    done = [file for instant in instants for file in snapshot.timeline.completed_at(instant)]
    reason = "; ".join(v.reason for v in verdicts)
    return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers_of(snapshot, process, done))


def about_nothing(snapshot: HudiSnapshot, process: TableProcess) -> Verdict:
    """The job came to its end without work: believed only if no plan is left."""
    if left := snapshot.pending_of(process.action):
        return Verdict(finding=Finding.NOT_DONE, reason=f"{process.action} plan {left[0].instant} is pending")
    return Verdict(finding=Finding.DONE, reason=f"nothing to do: Hudi made no {process.action} plan")


def after_a_loss(snapshot: HudiSnapshot, process: TableProcess) -> Verdict:
    """No result: what was not there at admission and is completed now is the effect."""
    if left := snapshot.pending_of(process.action):
        return Verdict(finding=Finding.NOT_DONE, reason=f"{process.action} plan {left[0].instant} is pending")
    before = set(texts(process.parameters.get("before")))
    new = [instant for instant in snapshot.instants_of(process.action) if instant not in before]
    if new:
        return about_plans(snapshot, process, new)
    return Verdict(finding=Finding.NOT_DONE, reason=f"no {process.action} was planned or completed")


def numbers_of(snapshot: HudiSnapshot, process: TableProcess, done: Sequence[TimelineFile]) -> dict[str, Json]:
    """What the work wrote or deleted. An unreadable commit takes nothing away from its being there."""
    total: dict[str, int] = {}
    for file in done:
        try:
            document = snapshot.completed_document(file)
        except OSError:
            continue
        counted = plans.clean_numbers(document) if process.action == CLEAN else plans.commit_numbers(document)
        total = {key: total.get(key, 0) + counted.get(key, 0) for key in {**total, **counted}}
    return {"completed": [file.name for file in done], **total}


def texts(value: Json) -> list[Instant]:
    return [Instant(str(item)) for item in value] if isinstance(value, (list, tuple)) else []
