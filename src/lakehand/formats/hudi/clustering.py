# SPDX-License-Identifier: Apache-2.0
"""The writer wins: a clustering that met a writer in the same files is rolled back, and planned again later.

A plan is stale when a writer has changed its files since: running it would replace file groups together with newer
rows. Spark's writer refuses to update a file group that a pending clustering plan will replace, unless it was told to
win; other writers never refuse.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import takewhile

from lakehand.domain.retries import back_off
from lakehand.formats.hudi import log_compaction
from lakehand.formats.hudi.locks import PREFER_WRITER, PREFIX, STRATEGY, NoLock, shared_lock
from lakehand.formats.hudi.plans import Document, clustering_slices
from lakehand.formats.hudi.snapshot import CLUSTERING, LOG_COMPACTION, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import TimelineFile, in_order
from lakehand.spi import Action, Failure, Instant, Json, Remedy, Skip, Status, TableConfig, TableRuntime
from lakehand.spi.kit.conversions import fields
from lakehand.spi.pauses import minutes, remaining

LOST = "lost"  # in the result of a clustering: its plans that lost against a writer, each with the reason
FIRST_BACK_OFF = timedelta(seconds=15)
LONGEST_BACK_OFF = timedelta(minutes=30)
_BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d{14,17})\.[a-z]+")
_LOG = re.compile(r"\.(?P<group>[^_]+)_(?P<instant>\d{14,17})\.log\..+")

# Decided at our commit, under the lock: against commits that are completed, under way, or just begun.
WRITER_WINS: Mapping[str, str] = {
    f"{PREFIX}{STRATEGY}": PREFER_WRITER,
    "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution": "true",
}


def may_roll_back(config: TableConfig) -> bool:
    """Only under the lock that the writers use, too."""
    return not isinstance(shared_lock(config), NoLock)


def stale_plans(snapshot: HudiSnapshot, plans: Iterable[PendingPlan]) -> dict[Instant, str]:
    """Plans that cannot succeed any more, with the reason: a writer or a compaction has changed their files since."""
    found = ((plan.instant, MAY_BE_STALE[plan.action](snapshot, plan)) for plan in plans if plan.action in MAY_BE_STALE)
    return {instant: why for instant, why in found if why}


def stale_failure(stale: Mapping[Instant, str]) -> Failure:
    """Without a common lock nobody else may roll the plan back while a writer is at work."""
    why = next(iter(stale.values()))
    return Failure(
        reason="stale-plan",
        message=f"{why}; roll the plan back in Hudi, then plan anew, or configure the table's lock",
        remedy=Remedy.FATAL,
    )


def rolled_back_by(snapshot: HudiSnapshot, instant: Instant) -> TimelineFile | None:
    """The completed rollback that names this plan."""
    for file in snapshot.timeline.completed("rollback"):
        if in_order(file.instant) <= in_order(instant):
            continue
        try:
            named = snapshot.document(file).get("commitsRollback")
        except OSError:
            continue
        if isinstance(named, list) and instant in named:
            return file
    return None


def lost_plans(result: Mapping[str, Json]) -> dict[Instant, str]:
    return {Instant(str(key)): str(why) for key, why in fields(result.get(LOST)).items()}


def wait_after_losses(table: TableRuntime, action: Action = CLUSTERING) -> Skip | None:
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


def why_stale(snapshot: HudiSnapshot, plan: PendingPlan) -> str | None:
    """Names a file of the plan's file groups that came after the plan; None: all is well."""
    folders: dict[str, dict[str, Document]] = {}
    for one in clustering_slices(plan.document):
        folders.setdefault(one.get("partitionPath") or "", {})[one.get("fileId") or ""] = one
    for folder, slices in folders.items():
        for name in names_in(snapshot, folder):
            found = _BASE.fullmatch(name) or _LOG.fullmatch(name)
            part = slices.get(found["group"]) if found else None
            if found and part and is_newer(snapshot, plan, part, name, found["instant"]):
                return (
                    f"clustering plan {plan.instant} is stale: {folder}/{name} is newer, and running the plan "
                    "would replace it"
                )
    return None


def names_in(snapshot: HudiSnapshot, folder: str) -> list[str]:
    try:
        return snapshot.storage.names(f"{snapshot.root}/{folder}".rstrip("/"))
    except FileNotFoundError:
        return []


def is_newer(snapshot: HudiSnapshot, plan: PendingPlan, part: Document, name: str, instant: str) -> bool:
    """Not in the plan, and written by a completed write that began after the slice's base file did.

    Such a write may have begun before the plan and ended after it. In layout 1 logs bear the time of their base file:
    each that is not in the plan is newer.
    """
    if in_order(instant) > in_order(plan.instant):
        return bool(snapshot.timeline.completed_at(instant))
    base = _BASE.fullmatch(file_name(part.get("dataFilePath") or ""))
    known = {file_name(path) for path in part.get("deltaFilePaths") or ()}
    if base is None or name in known:
        return False
    if snapshot.layout == 1 and name.startswith("."):
        return instant == base["instant"]
    return in_order(instant) > in_order(base["instant"]) and bool(snapshot.timeline.completed_at(instant))


def file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


MAY_BE_STALE = {CLUSTERING: why_stale, LOG_COMPACTION: log_compaction.why_stale}
