# SPDX-License-Identifier: Apache-2.0
"""Archive: how long the active timeline is, what Hudi keeps on it, and the proof that instants are in the archive.

Hudi archives commits from the oldest on and stops at the first that something still needs. The decision follows the
same rules, so that an archive that could do nothing is not tried, and the reason names what is in the way.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakehand.formats.hudi.clean import RETAIN
from lakehand.formats.hudi.compaction import DELTA_COMMITS
from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.properties import FOLDER, TIMELINE
from lakehand.formats.hudi.snapshot import CLEAN, HudiSnapshot
from lakehand.formats.hudi.timeline import WRITES, Timeline, TimelineFile, completion, in_order
from lakehand.formats.hudi.turns import clustering_first
from lakehand.formats.hudi.unplanned import UnplannedAction
from lakehand.spi import Action, Finding, Json, Operation, Skip, Status, TableRuntime, Verdict, kit
from lakehand.spi.kit.conversions import fields, items, whole_number
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.spi.pauses import CHANGED, DRY_RUN, minutes
from lakehand.storage import SMALL, parse_json

ARCHIVE = Action.register("archive")
MIN_COMMITS = kit.retained_count_setting("hudi.archive.min-commits", "commits that stay on the active timeline", 20, 4)
MAX_COMMITS = kit.count_setting(
    "hudi.archive.max-commits", "commits on the active timeline that make an archive worth it", 30, floor=5
)

BEYOND_CLEAN = 2  # commits that Hudi keeps on top of those whose files a clean retains
PENDING = WRITES | {"compaction", "logcompaction", "clustering"}  # what is pending among these blocks the archive
METADATA_TABLE = ".hoodie/metadata/.hoodie"
_FILE = re.compile(r"(\d{14,17})_(\d{14,17})_\d+\.parquet")  # first and last instant, level
_LOG = re.compile(r"\.commits_\.archive\..+")


def is_archived(snapshot: HudiSnapshot, instant: str) -> bool:
    if snapshot.layout == 1:
        return is_in_logs(snapshot, instant)
    return any(instant in instants_in(snapshot, path) for path in history_files(snapshot, instant))


def is_in_logs(snapshot: HudiSnapshot, instant: str) -> bool:
    """Their records are not compressed: an instant that was archived is in them as text."""
    folder = f"{snapshot.root}/{FOLDER}/{snapshot.properties.get('hoodie.archivelog.folder') or 'archived'}"
    try:
        names = [name for name in snapshot.storage.names(folder) if _LOG.fullmatch(name)]
    except FileNotFoundError:
        return False
    return any(instant.encode() in snapshot.storage.read(f"{folder}/{name}") for name in sorted(names, reverse=True))


def history_files(snapshot: HudiSnapshot, instant: str) -> Iterator[str]:
    """Files of the newest manifest that can hold an instant."""
    path = snapshot.properties.get("hoodie.timeline.path") or TIMELINE
    history = snapshot.properties.get("hoodie.timeline.history.path") or "history"
    folder = f"{snapshot.root}/{FOLDER}/{path}/{history}"
    try:
        version = snapshot.storage.read(f"{folder}/_version_", limit=SMALL).decode(errors="replace").strip()
        if not version.isdigit():
            raise OSError(f"{folder}/_version_ is {version[:20]!r}, which is not a number")
        manifest = parse_json(snapshot.storage.read(f"{folder}/manifest_{version}"), folder)
    except FileNotFoundError:
        return
    for entry in items(fields(manifest).get("files")):
        found = _FILE.fullmatch(str(fields(entry).get("fileName")))
        if found and in_order(found[1]) <= in_order(instant) <= in_order(found[2]):
            yield f"{folder}/{found[0]}"


def instants_in(snapshot: HudiSnapshot, path: str) -> list[str]:
    from pyarrow import ArrowInvalid, parquet  # costs 100 ms, once

    try:
        with snapshot.storage.open(path) as file:
            return [str(one) for one in parquet.read_table(file, columns=["instantTime"])["instantTime"].to_pylist()]
    except ArrowInvalid as error:
        raise OSError(f"{path} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Commits from this instant on stay; empty: all of them."""

    since: str
    why: str


def kept_commits(context: HudiContext) -> Iterator[Kept]:
    """All that Hudi keeps on the active timeline, beside the newest commits."""
    snapshot = context.snapshot
    yield from kept_for_pending(context)
    for savepoint in snapshot.savepoints[:1]:
        yield Kept(since=savepoint, why=f"the savepoint {savepoint} keeps all commits from there on")
    yield from kept_for_replaced(snapshot)
    if snapshot.is_merge_on_read:
        yield from kept_for_compaction(snapshot, context.values[DELTA_COMMITS])
    if "files" in snapshot.metadata_partitions:
        yield from kept_for_metadata(snapshot)


def kept_for_pending(context: HudiContext) -> Iterator[Kept]:
    timeline = context.snapshot.timeline
    pending = next((file for file in timeline.pending() if file.action in PENDING), None)
    if pending is None:
        return
    before = [f.instant for f in timeline.completed(*WRITES) if in_order(f.instant) < in_order(pending.instant)]
    age = minutes(context.table.now - pending.modified)
    why = f"the {pending.action} {pending.instant} is {pending.state} for {age} and keeps all commits since"
    yield Kept(since=before[-1] if before else pending.instant, why=why)


def kept_for_replaced(snapshot: HudiSnapshot) -> Iterator[Kept]:
    """Without its commit on the timeline, a reader would see replaced files again: they must be cleaned first."""
    cleaned = cleaned_until(snapshot)
    found = (file.instant for file in snapshot.timeline.completed("replacecommit"))
    for instant in found:
        if in_order(instant) >= in_order(cleaned):
            clean = f"the last clean kept all since {cleaned}" if cleaned else "there was no clean yet"
            yield Kept(since=instant, why=f"the files that {instant} replaced must be cleaned first, and {clean}")
            return


def cleaned_until(snapshot: HudiSnapshot) -> str:
    """The first commit whose files the last clean kept; empty when there was none."""
    cleans = snapshot.instants_of(CLEAN)
    if not cleans:
        return ""
    kept = fields(snapshot.requested_document(cleans[-1]).get("earliestInstantToRetain"))
    return str(kept.get("timestamp") or cleans[-1])


def kept_for_compaction(snapshot: HudiSnapshot, wanted: int) -> Iterator[Kept]:
    """Enough delta commits must stay that the next compaction is due."""
    compactions, deltas = snapshot.timeline.completed("commit"), snapshot.timeline.completed("deltacommit")
    last = compactions[-1].instant if compactions else ""
    since = [file.instant for file in deltas if in_order(file.instant) > in_order(last)]
    if not since:
        return
    why = f"{len(since)} delta commits are not compacted, and the last {wanted} of them stay"
    yield Kept(since=(last or since[0]) if len(since) < wanted else since[-wanted], why=why)


def kept_for_metadata(snapshot: HudiSnapshot) -> Iterator[Kept]:
    """What is newer than the last compaction of the metadata table stays."""
    compacted = metadata_compaction(snapshot)
    if not compacted:
        yield Kept(since="", why="its metadata table was not compacted yet, which its writer does")
        return
    for file in snapshot.timeline.completed(*WRITES):
        if in_order(completion(file)) > in_order(compacted):
            why = f"its metadata table was last compacted at {compacted}, which its writer does"
            yield Kept(since=file.instant, why=why)
            return


def metadata_compaction(snapshot: HudiSnapshot) -> str:
    folder = f"{snapshot.root}/{METADATA_TABLE}"
    try:
        entries = snapshot.storage.entries(f"{folder}/timeline" if snapshot.layout > 1 else folder)
    except FileNotFoundError:
        return ""
    compactions = Timeline.of(entries).completed("commit")
    return compactions[-1].instant if compactions else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBounds:
    """How many commits stay after an archive, and how many there may be before one."""

    least: int
    most: int


def bounds(context: HudiContext) -> TimelineBounds:
    """Never less than a clean needs. For a person the threshold does not count: Hudi needs one more than the least."""
    values = context.values
    least = max(values[MIN_COMMITS], values[RETAIN] + BEYOND_CLEAN)
    gap = 1 if context.by_person else max(values[MAX_COMMITS] - values[MIN_COMMITS], 1)
    return TimelineBounds(least=least, most=least + gap)


def decide(context: HudiContext) -> kit.Need | Skip:
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
        "retain_commits": context.values[RETAIN],
        "delta_commits": context.values[DELTA_COMMITS],
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
    seen = str(last.process.parameters.get("seen") or "")
    new, gap = len(context.snapshot.timeline.writes_since(seen)), limit.most - limit.least
    why = f"operation {last.id} could archive nothing; {new} of {gap} commits since"
    return Skip(reason=why) if new < gap else None


def last_run(table: TableRuntime) -> Operation | None:
    ended = (o for o in table.operations(ARCHIVE) if o.status is Status.SUCCEEDED)
    return next((o for o in ended if not o.process.parameters.get(DRY_RUN)), None)


def verify(effect: HudiEffect) -> Verdict:
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


ACTION = UnplannedAction(
    name=ARCHIVE, settings=(MIN_COMMITS, MAX_COMMITS), decide=decide, after=(CLEAN,), not_now=clustering_first,
    verify=verify, has_dry_run=True,
)  # fmt: skip
