# SPDX-License-Identifier: Apache-2.0
"""Archive: how long the active timeline is, what Hudi keeps on it, and the proof that instants are in the archive.

Hudi archives commits from the oldest on and stops at the first that something still needs. The decision follows the
same rules, so that an archive that could do nothing is not tried, and the reason names what is in the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehand.formats.hudi import settings
from lakehand.formats.hudi.history import is_archived
from lakehand.formats.hudi.kept_commits import Kept, kept_commits
from lakehand.formats.hudi.settings import HudiContext
from lakehand.formats.hudi.snapshot import ARCHIVE, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.timeline import WRITES, TimelineFile, in_order
from lakehand.formats.hudi.unplanned import UnplannedService
from lakehand.spi import Finding, Json, Operation, Skip, Status, TableRuntime, Verdict, kit
from lakehand.spi.kit.conversions import fields, whole_number
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.spi.pauses import CHANGED, DRY_RUN

BEYOND_CLEAN = 2  # commits that Hudi keeps on top of those whose files a clean retains


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBounds:
    """How many commits stay after an archive, and how many there may be before one."""

    least: int
    most: int


def bounds(context: HudiContext) -> TimelineBounds:
    """Never less than a clean needs. For a person the threshold does not count: Hudi needs one more than the least."""
    values = context.values
    least = max(values[settings.MIN_COMMITS], values[settings.RETAIN] + BEYOND_CLEAN)
    gap = 1 if context.by_person else max(values[settings.MAX_COMMITS] - values[settings.MIN_COMMITS], 1)
    return TimelineBounds(least=least, most=least + gap)


def need(context: HudiContext) -> kit.Need | Skip:
    commits, limit = context.snapshot.timeline.completed(*WRITES), bounds(context)
    count = f"{len(commits)} commits are on the active timeline"
    if len(commits) <= limit.most:
        return Skip(reason=f"{count}; an archive keeps {limit.least} and begins above {limit.most}")
    if waiting := wait_after_nothing(context, limit):
        return waiting
    kept = min(kept_commits(context), key=lambda one: in_order(one.since), default=None)
    going = archivable(commits, limit, kept)
    if not going:
        assert kept is not None
        return Skip(reason=f"{count}, more than {limit.most}, and none can be archived: {kept.why}")
    reason = f"{count}, more than {limit.most}: {len(going)} can be archived, {going[0].instant} to {going[-1].instant}"
    if kept is not None and len(going) < len(commits) - limit.least:
        reason = f"{reason}; then {kept.why}"
    return kit.Need(reason=reason, parameters=parameters(context, limit, commits))


def parameters(context: HudiContext, limit: TimelineBounds, commits: Sequence[TimelineFile]) -> dict[str, Json]:
    before: Json = {"oldest": commits[0].instant, "commits": len(commits)}
    return {
        "min_commits": limit.least,
        "max_commits": limit.most,
        "retain_commits": context.values[settings.RETAIN],
        "delta_commits": context.values[settings.THRESHOLDS[COMPACTION]],
        "seen": context.first("seen", context.snapshot.timeline.newest_write),
        kit.BEFORE: context.first(kit.BEFORE, before),
    }


def archivable(commits: Sequence[TimelineFile], limit: TimelineBounds, kept: Kept | None) -> list[TimelineFile]:
    free = commits if kept is None else [one for one in commits if in_order(one.instant) < in_order(kept.since)]
    return [*free[: len(commits) - limit.least]]


def wait_after_nothing(context: HudiContext, limit: TimelineBounds) -> Skip | None:
    """After a run that could archive nothing: not again before as many new commits as one archive takes."""
    last = last_run(context.table)
    if last is None or context.by_person or last.result.get(CHANGED) is not False:
        return None
    new, gap = (
        context.snapshot.timeline.writes_since(str(last.process.parameters.get("seen") or "")),
        limit.most - limit.least,
    )
    why = f"operation {last.id} could archive nothing; {new} of {gap} commits since"
    return Skip(reason=why) if new < gap else None


def last_run(table: TableRuntime) -> Operation | None:
    ended = (o for o in table.operations(ARCHIVE) if o.status is Status.SUCCEEDED)
    return next((o for o in ended if not o.process.parameters.get(DRY_RUN)), None)


def verify(effect: kit.Effect[HudiSnapshot]) -> Verdict:
    """The oldest commit of before has left the active timeline, and it is in the archive."""
    before = fields(effect.parameters.get(kit.BEFORE))
    oldest, count = str(before.get("oldest") or ""), whole_number(before.get("commits"))
    commits = effect.snapshot.timeline.completed(*WRITES)
    if not commits:
        return Verdict(finding=Finding.UNREADABLE, reason="the timeline is empty, which no archive leaves behind")
    if effect.snapshot.timeline.completed_at(oldest):
        if effect.result.get("archived") == 0:
            return done(f"Hudi found nothing to archive among {len(commits)} commits", changed=False)
        return not_done(f"{oldest} is still on the active timeline, which has {len(commits)} commits")
    if not is_archived(effect.snapshot, oldest):
        return not_done(f"{oldest} is neither on the active timeline nor in the archive: check the table")
    seen = in_order(str(effect.parameters.get("seen") or ""))
    went = count - sum(in_order(one.instant) <= seen for one in commits)
    reason = f"{went} commits were archived; the active timeline has {len(commits)}, after {count} before"
    return done(reason, {"commits_archived": went, "commits_before": count, "commits_left": len(commits)})


SERVICE = UnplannedService(need=need, verify=verify)
