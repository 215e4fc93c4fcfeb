# SPDX-License-Identifier: Apache-2.0
"""Sorts an append table. Paimon's own call overwrites, and with it what a writer appends meanwhile; this one commits
as a compaction, which takes away exactly the files that it has read."""

import math
from typing import Any

from lakehand.jobs.job import Job
from lakehand.jobs.paimon.merging import commit
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.paimon.tables import Target

GIVEN_UP = ("conflicts detected", "not previously added")  # surely not committed


def sort(guard: TableGuard, user: str) -> None:
    job, target, given = guard.job, guard.target, guard.job.parameters
    table = target.load(write_only="true")
    splits = list(table.newSnapshotReader().read().dataSplits())
    if not splits:
        return
    guard.check_newest(target.load())  # of what a writer committed just now, too
    spread(job, splits, table.coreOptions().targetFileSize(False))
    job.check()
    job.phase(f"sorting {len(splits)} splits")
    written = rewrite(target, table, splits, str(given["order_strategy"]), [str(c) for c in given["order_columns"]])
    job.check()
    job.phase("committing")
    guard.check()
    try:
        commit(table, f"{user}_{given['sign']}", as_compaction(target, splits, written))
    except Exception as error:
        if any(word in str(error) for word in GIVEN_UP):
            forget(table, user, written)
        raise


def spread(job: Job, splits: list[Any], size: int) -> None:
    """As many sorted files as their bytes need, not as many as Spark has shuffle partitions."""
    total = sum(file.fileSize() for split in splits for file in split.dataFiles())
    job.session.conf.set("spark.sql.adaptive.enabled", "true")
    job.session.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
    job.session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", str(size))
    job.session.conf.set("spark.sql.shuffle.partitions", str(max(math.ceil(4 * total / size), 1)))


def rewrite(target: Target, table: Any, splits: list[Any], strategy: str, columns: list[str]) -> Any:
    """The rows of each partition, sorted and written; nothing is committed yet."""
    jvm = target.jvm
    kind = getattr(jvm, "org.apache.paimon.spark.sort.TableSorter$OrderType").of(strategy)
    sorter = jvm.org.apache.paimon.spark.sort.TableSorter.getSorter(table, kind, columns)
    frames = [sorter.sort(frame_of(target, table, group)) for group in by_partition(target, splits)]
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.union(frame)
    written = jvm.org.apache.paimon.spark.commands.PaimonSparkWriter(table).write(rows)
    return jvm.scala.collection.JavaConverters.seqAsJavaList(written)


def by_partition(target: Target, splits: list[Any]) -> list[list[Any]]:
    serialize = target.jvm.org.apache.paimon.utils.SerializationUtils.serializeBinaryRow
    groups: dict[bytes, list[Any]] = {}
    for split in splits:
        groups.setdefault(bytes(serialize(split.partition())), []).append(split)
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
    jvm = target.jvm
    nothing = jvm.java.util.Collections.emptyList()
    messages = jvm.java.util.ArrayList()
    for split in splits:
        messages.add(
            message(jvm, split, jvm.org.apache.paimon.io.CompactIncrement(split.dataFiles(), nothing, nothing))
        )
    for one in written:
        added = one.newFilesIncrement().newFiles()
        messages.add(message(jvm, one, jvm.org.apache.paimon.io.CompactIncrement(nothing, added, nothing)))
    return messages


def message(jvm: Any, of: Any, compaction: Any) -> Any:
    nothing = jvm.org.apache.paimon.io.DataIncrement.emptyIncrement()
    return jvm.org.apache.paimon.table.sink.CommitMessageImpl(of.partition(), of.bucket(), nothing, compaction)


def forget(table: Any, user: str, written: Any) -> None:
    """The commit was refused: its files belong to nobody."""
    made = table.newCommit(user)
    try:
        made.abort(written)
    finally:
        made.close()
