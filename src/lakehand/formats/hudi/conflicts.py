# SPDX-License-Identifier: Apache-2.0
"""The writer wins: a clustering that met a writer in the same files is rolled back, and planned again later."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from lakehand.formats.hudi.lock_keys import PREFER_WRITER, PREFIX, STRATEGY
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.overtaken import why_overtaken
from lakehand.formats.hudi.snapshot import CLUSTERING, HudiSnapshot, PendingPlan
from lakehand.formats.hudi.timeline import TimelineFile, in_order
from lakehand.spi import Action, Failure, Instant, Json, Operation, Remedy, Skip, Status, TableConfig, TableRuntime
from lakehand.spi.pauses import minutes

LOST = "lost"  # in the result of a clustering: its plans that lost against a writer, each with the reason
FIRST_BACK_OFF = timedelta(seconds=15)
LONGEST_BACK_OFF = timedelta(minutes=30)

# Decided at our commit, under the lock: against commits that are completed, under way, or just begun.
WRITER_WINS: Mapping[str, str] = {
    f"{PREFIX}{STRATEGY}": PREFER_WRITER,
    "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution": "true",
}


def conflict_options(action: Action) -> Mapping[str, str]:
    return WRITER_WINS if action == CLUSTERING else {}


def may_roll_back(config: TableConfig) -> bool:
    """Only under the lock that the writers use, too."""
    return not isinstance(shared_lock(config), NoLock)


def stale_plans(snapshot: HudiSnapshot, plans: Iterable[PendingPlan]) -> dict[Instant, str]:
    """Clustering plans that cannot succeed any more, with the reason: a writer has changed their files since."""
    found = ((plan.instant, why_overtaken(snapshot, plan)) for plan in plans if plan.action == CLUSTERING)
    return {instant: why for instant, why in found if why}


def overtaken_failure(stale: Mapping[Instant, str]) -> Failure:
    """Without a common lock nobody else may roll the plan back while a writer is at work."""
    why = next(iter(stale.values()))
    return Failure(
        reason="overtaken",
        message=f"{why}; roll the plan back in Hudi, then cluster anew, or configure the table's lock",
        remedy=Remedy.FATAL,
    )


def rolled_back_by(snapshot: HudiSnapshot, instant: Instant) -> TimelineFile | None:
    """The completed rollback that names this plan."""
    for file in snapshot.timeline.completed("rollback"):
        if in_order(file.instant) > in_order(instant) and names_plan(snapshot, file, instant):
            return file
    return None


def names_plan(snapshot: HudiSnapshot, file: TimelineFile, instant: Instant) -> bool:
    try:
        named = snapshot.completed_document(file).get("commitsRollback")
    except OSError:
        return False
    return isinstance(named, list) and instant in named


def lost_plans(result: Mapping[str, Json]) -> dict[Instant, str]:
    lost = result.get(LOST)
    return {Instant(str(key)): str(why) for key, why in lost.items()} if isinstance(lost, Mapping) else {}


def back_off(table: TableRuntime) -> Skip | None:
    """After clusterings that lost against a writer: wait, each time longer, and begin anew after a success."""
    lost = in_a_row(table.operations(CLUSTERING))
    if not lost:
        return None
    wait = min(FIRST_BACK_OFF * 2 ** min(len(lost) - 1, 20), LONGEST_BACK_OFF)
    left = (lost[0].finished_at or lost[0].updated_at) + wait - table.now
    if left <= timedelta():
        return None
    times = f"the last {len(lost)} clusterings" if len(lost) > 1 else "the last clustering"
    return Skip(
        reason=f"{times} lost against a writer in the same files (operation {lost[0].id}); next try in {spoken(left)}",
        look_again=left,
    )


def in_a_row(operations: Sequence[Operation]) -> list[Operation]:
    lost: list[Operation] = []
    for operation in operations:
        if operation.status is Status.SUCCEEDED:
            break
        if operation.status is Status.DROPPED and lost_plans(operation.result):
            lost.append(operation)
    return lost


def spoken(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s" if span < timedelta(minutes=2) else minutes(span)
