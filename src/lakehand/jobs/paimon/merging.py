# SPDX-License-Identifier: Apache-2.0
"""A minor compaction by key: Paimon picks the runs that are cheap to merge. Its Spark has no such call, so it is done
in the driver, and only for tables where that is little."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target

BATCH = 9223372036854775807  # the commit identifier of batch jobs


def merge_in_driver(guard: TableGuard, user: str) -> None:
    job, target, name = guard.job, guard.target, f"{user}_minor"
    quiet = target.load(write_only="true")
    job.check()
    job.phase("merging the cheapest runs")
    with writing(target, target.load(write_only="false"), name) as write:
        buckets = list(buckets_of(target, quiet))
        guard.check_newest(target.load())  # of what a writer committed just now, too
        for partition, bucket in buckets:
            job.check()
            write.compact(partition, bucket, False)
        messages = write.prepareCommit(True, BATCH)
        job.check()
        job.phase("committing")
        guard.check()
        commit(quiet, name, messages)


@contextmanager
def writing(target: Target, table: Any, user: str) -> Iterator[Any]:
    scratch = target.jvm.org.apache.paimon.spark.SparkUtils.createIOManager()
    write = table.newWrite(user)
    try:
        write.withIOManager(scratch)
        yield write
    finally:
        write.close()
        scratch.close()


def buckets_of(target: Target, table: Any) -> Iterator[tuple[Any, int]]:
    serialize = target.jvm.org.apache.paimon.utils.SerializationUtils.serializeBinaryRow
    seen: set[tuple[bytes, int]] = set()
    for split in table.newSnapshotReader().read().dataSplits():
        key = (bytes(serialize(split.partition())), int(split.bucket()))
        if key not in seen:
            seen.add(key)
            yield split.partition(), split.bucket()


def commit(table: Any, user: str, messages: Any) -> None:
    """The table is write-only here: its commits expire nothing."""
    made = table.newCommit(user)
    try:
        made.commit(messages)
    finally:
        made.close()
