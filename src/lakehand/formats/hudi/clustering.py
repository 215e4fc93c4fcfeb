# SPDX-License-Identifier: Apache-2.0
"""Clustering: rewrites files into larger ones, sorted if wanted. The writer wins, and the plan is made again later.

A plan is stale when a writer has changed its files since: running it would replace file groups together with newer
rows. Spark's writer refuses to update a file group that a pending clustering plan will replace, unless it was told to
win; other writers never refuse.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.locks import PREFER_WRITER, PREFIX, STRATEGY, NoLock, shared_lock
from lakehand.formats.hudi.planned import PlannedAction, enough_commits, verify_plans
from lakehand.formats.hudi.plans import Document, clustering_slices
from lakehand.formats.hudi.snapshot import CLUSTERING, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import PLAIN_WRITES, State, TimelineFile, in_order
from lakehand.formats.hudi.writers import BUCKET, writers_index
from lakehand.spi import Invalid, Json, Skip, TableRuntime, kit

COMMITS = kit.count_setting("hudi.clustering.commits", "commits that make a clustering worth it", 4, floor=1)
TRIGGER = kit.trigger_settings("hudi.clustering", "the oldest commit that is not clustered")
ORDER_COLUMNS = kit.columns_setting("hudi.clustering.order-columns", "columns to sort by", set_by=kit.SetBy.REQUEST)
ORDER_STRATEGY = kit.choice_setting(
    "hudi.clustering.order-strategy", "how to sort", "linear", "z-order", "hilbert", set_by=kit.SetBy.REQUEST
)

SEE = "see 'Who wins' in docs/hudi.md"
GIVEN_UP = timedelta(minutes=2)  # a write that is no further than requested after this long
_COLUMN = re.compile(r"\w[\w.]*")
_BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d{14,17})\.[a-z]+")
_LOG = re.compile(r"\.(?P<group>[^_]+)_(?P<instant>\d{14,17})\.log\..+")

# Decided at our commit, under the lock: against commits that are completed, under way, or just begun.
WRITER_WINS: Mapping[str, str] = {
    f"{PREFIX}{STRATEGY}": PREFER_WRITER,
    "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution": "true",
}


def decide(context: HudiContext) -> kit.Need | Skip:
    return enough_commits(context, COMMITS, TRIGGER, by_time=2)


def limits(context: HudiContext) -> dict[str, Json]:
    """How a clustering that we plan sorts its rows; empty: as they come."""
    values = context.values
    columns = values[ORDER_COLUMNS]
    if wrong := [one for one in columns if not _COLUMN.fullmatch(one)]:
        raise Invalid(f"cannot order by {wrong[0]!r}: {ORDER_COLUMNS.key} names columns")
    return {"order_columns": ",".join(columns), "order_strategy": values[ORDER_STRATEGY]} if columns else {}


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


def warning(context: HudiContext) -> str | None:
    """Why writers may fail because of clusterings of this table; None: nothing of the kind is known."""
    table, snapshot = context.table, context.snapshot
    if not (snapshot.pending_of(CLUSTERING) or snapshot.instants_of(CLUSTERING)):
        return None
    if refused := refused_write(table, snapshot):
        return (
            f"the write {refused.instant} was begun beside a clustering and given up: its writer may lack the options "
            f"of `lakehand hudi-options --actions clustering --lock-folder ...`; {SEE}"
        )
    if isinstance(shared_lock(table.config), NoLock):
        return f"no lock is shared with the writers, so updates of files under a clustering plan can fail; {SEE}"
    return None


def refused_write(table: TableRuntime, snapshot: HudiSnapshot) -> TimelineFile | None:
    """Hudi's default strategy refuses an update before the write is inflight: only its request stays."""
    instants = [file.instant for file in snapshot.timeline.files]
    for file in snapshot.timeline.files:
        is_write = file.action in PLAIN_WRITES and file.state is State.REQUESTED
        is_alone = is_write and instants.count(file.instant) == 1
        if is_alone and table.now - file.modified > GIVEN_UP and was_beside_clustering(snapshot, file):
            return file
    return None


def was_beside_clustering(snapshot: HudiSnapshot, write: TimelineFile) -> bool:
    no_end_yet = write.modified + GIVEN_UP
    pending = [plan.instant for plan in snapshot.pending_of(CLUSTERING)]
    for instant in [*pending, *snapshot.instants_of(CLUSTERING)]:
        began = min((f.modified for f in snapshot.timeline.requested_at(instant)), default=write.modified)
        ended = max((f.modified for f in snapshot.timeline.completed_at(instant)), default=no_end_yet)
        if began < write.modified < ended:
            return True
    return False


def why_impossible(context: HudiContext) -> str | None:
    """A clustering names files anew, without the bucket's number: the next write of a bucket index would fail."""
    if writers_index(context.snapshot, context.table.config) != BUCKET:
        return None
    return "the writers find keys by the bucket's number in the names of files, which a clustering would not keep"


ACTION = PlannedAction(
    name=CLUSTERING, settings=(COMMITS, *TRIGGER, ORDER_COLUMNS, ORDER_STRATEGY), decide=decide, warning=warning,
    impossible=why_impossible, why_stale=why_stale, limits=limits, options=lambda context: WRITER_WINS,
    verify=verify_plans, writes_base_files=True, is_urgent=True,
)  # fmt: skip
