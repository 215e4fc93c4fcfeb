# SPDX-License-Identifier: Apache-2.0
"""Compacts a table: packs small files, merges sorted runs, or sorts; every commit has the operation tag."""

from collections.abc import Iterator, Sequence
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon import rewrites
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import own_commits, target_of, user_of

MOST_ROUNDS = 24
FOREVER = "2147483647"
# A commit of Paimon's that may compact also expires snapshots, partitions and consumers, and makes tags. Ours does not.
NOTHING_ELSE = {
    "snapshot.num-retained.min": FOREVER,
    "snapshot.num-retained.max": FOREVER,
    "partition.expiration-check-interval": "36500 d",
    "end-input.check-partition-expire": "false",
    "tag.automatic-creation": "none",
    "consumer.expiration-time": "36500 d",
}


def run(job: Job) -> dict[str, Any]:
    given = job.parameters
    target, user, before = target_of(job), user_of(job), int(given["before"])
    guard = TableGuard(job, target)
    if done := own_commits(guard.check(), user, before):
        return {"snapshots": done, "already_done": True}
    guard.check_newest(target.load())
    if given["strategy"] == "sort":
        rewrites.sort(guard, user)
    elif given["kind"] == "append":
        pack(guard, user)
    elif given["strategy"] == "minor":
        rewrites.merge_in_driver(guard, user)
    else:
        merge(guard, user)
    snapshots = own_commits(target.load(), user, before)
    job.note("committed", snapshots)
    return {"snapshots": snapshots, "strategy": given["strategy"]}


def pack(guard: TableGuard, user: str) -> None:
    """One call packs whole bins only, so that a table takes some rounds, each with a smaller bin."""
    least = int(guard.job.parameters["min_files"])
    for files in bins(guard.job.parameters["counts"], least):
        call(
            guard,
            f"packing {files} small files into one",
            {
                "commit.user-prefix": user,
                "write-only": "true",  # packing works all the same, and the commit does nothing else
                "compaction.min.file-num": str(least),
                "compaction.max.file-num": str(files),
            },
        )


def bins(counts: Sequence[int], least: int) -> Iterator[int]:
    """How many files to pack at a time, round by round, until no partition has ``least`` small files left.

    Each round serves all partitions that have at least half as many as the fullest.
    """
    left = [int(count) for count in counts if int(count) >= least]
    for _ in range(MOST_ROUNDS):
        if not left:
            return
        size = max(min(count for count in left if 2 * count >= max(left)), least)
        yield size
        packed = [count if count < size else count // size + count % size for count in left]
        left = [count for count in packed if count >= least]


def merge(guard: TableGuard, user: str) -> None:
    """All sorted runs of each bucket into one, on the executors."""
    call(guard, "merging all runs of each bucket", {"commit.user-prefix": user, **NOTHING_ELSE})


def call(guard: TableGuard, phase: str, options: dict[str, str]) -> None:
    """Paimon plans, rewrites and commits in one call: this is the last moment for checks."""
    guard.job.check()
    guard.job.phase(phase)
    guard.check_newest(guard.check())
    guard.target.compact(options)
