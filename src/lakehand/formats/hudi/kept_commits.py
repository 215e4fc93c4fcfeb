# SPDX-License-Identifier: Apache-2.0
"""What Hudi keeps on the active timeline because something still needs it: by the same rules as its archiver."""

from collections.abc import Iterator
from dataclasses import dataclass

from lakehand.formats.hudi import settings
from lakehand.formats.hudi.settings import HudiContext
from lakehand.formats.hudi.snapshot import CLEAN, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.timeline import WRITES, Timeline, completion, in_order
from lakehand.spi.kit.conversions import fields
from lakehand.spi.pauses import minutes

PENDING = WRITES | {"compaction", "logcompaction", "clustering"}  # what is pending among these blocks the archive
METADATA_TABLE = ".hoodie/metadata/.hoodie"


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
        yield from kept_for_compaction(snapshot, context.values[settings.THRESHOLDS[COMPACTION]])
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
