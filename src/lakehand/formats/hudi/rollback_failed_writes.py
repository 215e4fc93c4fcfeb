# SPDX-License-Identifier: Apache-2.0
"""Rollback of failed writes: which pending writes are dead, since when, and the proof that they were rolled back.

Only under Hudi's LAZY policy, where each live writer sends heartbeats; under EAGER the next write does it by itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.locks import FAILED_WRITES, is_lazy
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.timeline import WRITES, TimelineFile, instants_in, is_instant
from lakehand.formats.hudi.unplanned import UnplannedAction
from lakehand.formats.hudi.writers import heartbeat_timeout, heartbeats
from lakehand.spi import Action, Instant, Json, Skip, Verdict, health, kit
from lakehand.spi.kit.conversions import fields, whole_number
from lakehand.spi.kit.verdicts import done, gone, not_done
from lakehand.spi.pauses import minutes

ROLLBACK_FAILED_WRITES = Action.register("rollback-failed-writes")
MIN_AGE = kit.retention_setting(
    "hudi.rollback-failed-writes.min-age", "time without a heartbeat before a write counts as dead",
    timedelta(minutes=10), timedelta(minutes=2),
)  # fmt: skip

SHOWN = 3  # writes by name in a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWrite:
    instant: Instant
    last_sign: datetime  # of its writer, or of whoever rolls it back
    rollback: Instant | None = None  # one that was begun and not completed


def decide(context: HudiContext) -> kit.Need | Skip:
    if not is_lazy(context.table.config):
        return Skip(
            reason="failed writes are left to the writers: only where they all use LAZY does a missing heartbeat mean "
            f"that a write is dead. If they do, set {FAILED_WRITES}=LAZY in the table's properties"
        )
    after = max(heartbeat_timeout(context.table.config), context.values[MIN_AGE])
    writes, now = pending_writes(context.snapshot), context.table.now
    dead = [one for one in writes if now - one.last_sign > after]
    if not dead:
        return why_none(writes, now, after)
    shown = ", ".join(f"{one.instant} (no sign of life for {minutes(now - one.last_sign)})" for one in dead[:SHOWN])
    more = f" and {len(dead) - SHOWN} more" if len(dead) > SHOWN else ""
    reason = f"{len(dead)} of {len(writes)} pending writes are dead after {minutes(after)} without a heartbeat: "
    instants: Json = [one.instant for one in dead]
    parameters: dict[str, Json] = {
        "instants": instants,
        "dead_after_seconds": int(after.total_seconds()),
        "min_age": kit.duration_text(context.values[MIN_AGE]),  # for the next attempt
    }
    return kit.Need(reason=f"{reason}{shown}{more}", parameters=parameters)


def why_none(writes: list[PendingWrite], now: datetime, after: timedelta) -> Skip:
    if not writes:
        return Skip(reason="pending writes: 0")
    next_dead = min(one.last_sign for one in writes) + after
    reason = f"pending writes: {len(writes)}, each with a sign of life within {minutes(after)}"
    return Skip(reason=reason, look_again=next_dead - now + timedelta(seconds=1))


def pending_writes(snapshot: HudiSnapshot) -> list[PendingWrite]:
    """Writes that are not completed, and those whose rollback is not; never a plan of a table service."""
    plans, known = {plan.instant for plan in snapshot.pending}, heartbeats(snapshot)
    begun = [file for file in snapshot.timeline.pending() if file.action in WRITES and file.instant not in plans]
    rollbacks = {target: file for target, file in unfinished_rollbacks(snapshot) if target not in plans}
    signs = {file.instant: signs_of(file, known) for file in begun}
    for target, file in rollbacks.items():
        signs[target] = [*signs.get(target, []), *signs_of(file, known)]
    return [
        PendingWrite(
            instant=instant, last_sign=max(found), rollback=rollbacks[instant].instant if instant in rollbacks else None
        )
        for instant, found in sorted(signs.items())
    ]


def signs_of(file: TimelineFile, known: Mapping[str, datetime]) -> list[datetime]:
    return [file.modified, *([known[file.instant]] if file.instant in known else [])]


def unfinished_rollbacks(snapshot: HudiSnapshot) -> Iterator[tuple[Instant, TimelineFile]]:
    """The write that each pending rollback is about. It may be gone already: only the rollback is left to complete."""
    for file in snapshot.timeline.pending():
        document = snapshot.requested_document(file.instant) if file.action == "rollback" else {}
        target = fields(document.get("instantToRollback"))
        instant, action = str(target.get("commitTime")), str(target.get("action"))
        if action in WRITES and is_instant(instant) and not snapshot.timeline.completed_at(instant):
            yield Instant(instant), file


def verify(effect: HudiEffect) -> Verdict:
    """Each write is gone from the timeline, and a completed rollback names it."""
    snapshot, instants = effect.snapshot, instants_in(effect.parameters.get("instants"))
    left = [one for one in pending_writes(snapshot) if one.instant in instants]
    if left and left[0].rollback:
        return not_done(f"the rollback {left[0].rollback} of write {left[0].instant} is not completed")
    alive = instants_in(effect.result.get("alive"))
    if dead := [one for one in left if one.instant not in alive]:
        return not_done(f"write {dead[0].instant} is still pending")
    proofs = {instant: file for instant in instants if (file := snapshot.rollback_of(instant))}
    if not proofs:
        return gone(why_gone(snapshot, instants, alive))
    deleted = sum(whole_number(snapshot.document(file).get("totalFilesDeleted")) for file in proofs.values())
    named = ", ".join(f"{instant} ({file.name})" for instant, file in list(proofs.items())[:SHOWN])
    reason = f"{len(proofs)} of {len(instants)} dead writes were rolled back, and {deleted} files deleted: {named}"
    return done(reason, {"rolled_back": [*proofs], "files_deleted": deleted, health.FILES_REMOVED: deleted})


def why_gone(snapshot: HudiSnapshot, instants: list[Instant], alive: list[Instant]) -> str:
    if alive:
        return f"write {alive[0]} had a heartbeat again: it is left alone"
    if completed := [one for one in instants if snapshot.timeline.completed_at(one)]:
        return f"write {completed[0]} was completed by its writer after all"
    return f"write {instants[0]} is gone from the timeline, and no completed rollback names it"


ACTION = UnplannedAction(
    name=ROLLBACK_FAILED_WRITES, settings=(MIN_AGE,), decide=decide, verify=verify, has_dry_run=True
)
