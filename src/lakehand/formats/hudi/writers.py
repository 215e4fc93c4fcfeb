# SPDX-License-Identifier: Apache-2.0
"""What a table shows about its writers' settings: whether they can fail beside a clustering."""

from datetime import datetime, timedelta

from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.formats.hudi.snapshot import CLUSTERING, HudiSnapshot
from lakehand.formats.hudi.timeline import State, TimelineFile
from lakehand.spi import TableRuntime

SEE = "see 'Who wins' in docs/hudi.md"
GIVEN_UP = timedelta(minutes=2)  # a write that is no further than requested after this long
WRITES = ("commit", "deltacommit")


def warning(table: TableRuntime, snapshot: HudiSnapshot) -> str | None:
    """Why writers may fail because of clusterings of this table; None: nothing of the kind is known."""
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
        is_alone = file.action in WRITES and file.state is State.REQUESTED and instants.count(file.instant) == 1
        is_old = is_alone and table.now - file.modified > GIVEN_UP
        if is_old and was_beside_clustering(snapshot, file):
            return file
    return None


def was_beside_clustering(snapshot: HudiSnapshot, write: TimelineFile) -> bool:
    pending = [plan.instant for plan in snapshot.pending_of(CLUSTERING)]
    for instant in [*pending, *snapshot.instants_of(CLUSTERING)]:
        began = min((f.modified for f in snapshot.timeline.requested_at(instant)), default=write.modified)
        ended = max((f.modified for f in snapshot.timeline.completed_at(instant)), default=no_end_yet(write))
        if began < write.modified < ended:
            return True
    return False


def no_end_yet(write: TimelineFile) -> datetime:
    """After the write: for a clustering that has no end yet."""
    return write.modified + GIVEN_UP
