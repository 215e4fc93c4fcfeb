# SPDX-License-Identifier: Apache-2.0
"""Rewrites that Paimon's Spark procedures do not offer: a minor merge by key, and a sort that loses no append."""

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target

BATCH = 9223372036854775807  # the commit identifier of batch jobs
REFUSED = ("conflicts detected", "not previously added")  # surely not committed


def merge_in_driver(guard: TableGuard, user: str) -> None:
    """A minor compaction by key: Paimon picks the runs that are cheap to merge.

    Its Spark procedure has no such strategy, so it is done in the driver, and only for tables where that is little.
    """
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
    create_scratch = target.jvm.org.apache.paimon.spark.SparkUtils.createIOManager
    with closing(create_scratch()) as scratch, closing(table.newWrite(user)) as write:
        write.withIOManager(scratch)
        yield write


def buckets_of(target: Target, table: Any) -> Iterator[tuple[Any, int]]:
    seen: set[tuple[bytes, int]] = set()
    for split in table.newSnapshotReader().read().dataSplits():
        key = (target.partition_bytes(split), int(split.bucket()))
        if key not in seen:
            seen.add(key)
            yield split.partition(), split.bucket()


def commit(table: Any, user: str, messages: Any) -> None:
    """The table is write-only here: its commits expire nothing."""
    with closing(table.newCommit(user)) as made:
        made.commit(messages)


def sort(guard: TableGuard, user: str) -> None:
    """Paimon's own call overwrites the table, and with it what a writer appends meanwhile.

    This one commits as a compaction, which takes away exactly the files that it has read.
    """
    job, target, given = guard.job, guard.target, guard.job.parameters
    table = target.load(write_only="true")
    splits = list(table.newSnapshotReader().read().dataSplits())
    if not splits:
        return
    guard.check_newest(target.load())  # of what a writer committed just now, too
    set_parallelism(job, splits, table.coreOptions().targetFileSize(False))
    job.check()
    job.phase(f"sorting {len(splits)} splits")
    written = write_sorted(target, table, splits, given["order_strategy"], [str(c) for c in given["order_columns"]])
    job.check()
    job.phase("committing")
    guard.check()
    try:
        commit(table, f"{user}_{given['sign']}", as_compaction(target, splits, written))
    except Exception as error:
        if any(text in str(error) for text in REFUSED):  # its files belong to nobody
            with closing(table.newCommit(user)) as made:
                made.abort(written)
        raise


def set_parallelism(job: Job, splits: list[Any], size: int) -> None:
    """As many sorted files as their bytes need, not as many as Spark has shuffle partitions."""
    total = sum(file.fileSize() for split in splits for file in split.dataFiles())
    job.session.conf.set("spark.sql.adaptive.enabled", "true")
    job.session.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
    job.session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", str(size))
    job.session.conf.set("spark.sql.shuffle.partitions", str(max(math.ceil(4 * total / size), 1)))


def write_sorted(target: Target, table: Any, splits: list[Any], strategy: Any, columns: list[str]) -> Any:
    """The rows of each partition, sorted and written; nothing is committed yet."""
    jvm = target.jvm
    kind = getattr(jvm, "org.apache.paimon.spark.sort.TableSorter$OrderType").of(str(strategy))
    sorter = jvm.org.apache.paimon.spark.sort.TableSorter.getSorter(table, kind, columns)
    rows, *others = [sorter.sort(frame_of(target, table, group)) for group in by_partition(target, splits)]
    for frame in others:
        rows = rows.union(frame)
    written = jvm.org.apache.paimon.spark.commands.PaimonSparkWriter(table).write(rows)
    return jvm.scala.collection.JavaConverters.seqAsJavaList(written)


def by_partition(target: Target, splits: list[Any]) -> list[list[Any]]:
    groups: dict[bytes, list[Any]] = {}
    for split in splits:
        groups.setdefault(target.partition_bytes(split), []).append(split)
    return list(groups.values())


def frame_of(target: Target, table: Any, splits: list[Any]) -> Any:
    """A data frame of exactly these files."""
    jvm, some = target.jvm, target.jvm.scala.Option.apply
    relations = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
    relation = relations.create(target.spark_table(), some(target.spark_catalog), some(target.identifier))
    chosen = target.array(jvm.org.apache.paimon.table.source.DataSplit, splits)
    scan = jvm.org.apache.paimon.spark.PaimonSplitScan.apply(table, chosen)
    plan = jvm.org.apache.paimon.spark.catalyst.Compatibility.createDataSourceV2ScanRelation(
        relation, scan, relation.output()
    )
    return jvm.org.apache.spark.sql.PaimonUtils.createDataset(target.session._jsparkSession, plan)


def as_compaction(target: Target, splits: list[Any], written: Any) -> Any:
    """What was read goes, what was written comes; Paimon refuses it if anything that was read is gone."""
    java, paimon = target.jvm.java.util, target.jvm.org.apache.paimon
    none, messages = java.Collections.emptyList(), java.ArrayList()
    changes = [(split, split.dataFiles(), none) for split in splits]
    changes += [(one, none, one.newFilesIncrement().newFiles()) for one in written]
    for of, before, after in changes:
        data, compaction = paimon.io.DataIncrement.emptyIncrement(), paimon.io.CompactIncrement(before, after, none)
        messages.add(paimon.table.sink.CommitMessageImpl(of.partition(), of.bucket(), data, compaction))
    return messages
