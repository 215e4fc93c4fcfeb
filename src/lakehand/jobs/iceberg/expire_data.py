# SPDX-License-Identifier: Apache-2.0
"""Deletes the rows before a day in one commit: files that have no others go, and the others are written without them.

Not Spark's DELETE: where that only drops files its commit cannot carry our tag, and a table that merges on read would
keep files of which every row is deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import outside, tables
from lakehand.jobs.iceberg.rows import IcebergRows
from lakehand.jobs.job import Job
from lakehand.jobs.safety import (
    LISTED,
    MOST_ROWS,
    UnsafeRequest,
    day_before,
    day_literal,
    operation_tag,
    refuse_implausible,
    would_expire,
)
from lakehand.jobs.spark import identifier, jvm, static_method

# The types that rows may grow old by, each with a time that Iceberg parses.
TIMES = {"date": "", "timestamp": "T00:00:00", "timestamptz": "T00:00:00+00:00"}
TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
REFUSED = frozenset({"ValidationException", "CommitFailedException"})  # surely not committed


class Old(NamedTuple):
    """The files with rows before the day, as Iceberg's scan tasks."""

    snapshot: int
    whole: Sequence[Any]  # with no other rows
    mixed: Sequence[Any]
    rows: int  # before the day

    @property
    def tasks(self) -> list[Any]:
        return [*self.whole, *self.mixed]


class Day(NamedTuple):
    """The condition, as Iceberg and as Spark have it."""

    expression: Any
    condition: str
    text: str


def run(job: Job) -> dict[str, Any]:
    tag = operation_tag(job.parameters)
    job.phase("reading the table")
    table = tables.load(job)
    day = day_of(job, table)
    if done := tables.tagged(job.session, table, tag):
        return {"already": True, "snapshots": done}
    if table.currentSnapshot() is None:
        return nothing(job)
    job.check()
    job.phase("checking that the files are the table's")
    outside.refuse_foreign_files(job, table)
    job.phase(f"looking for rows before {day.text}")
    old = find_old(job, table, day)
    if not old.tasks:
        return nothing(job)
    if job.parameters.get("dry_run") is not False:
        return report(job, table, old, day)
    total = int(table.currentSnapshot().summary().get("total-records") or 0)
    what = f"are rows before {day.text}"
    refuse_implausible(job.parameters, old.rows, total, what=what, of="rows", most=MOST_ROWS)
    added = list[Any]()
    if old.mixed:
        job.phase(f"rewriting {len(old.mixed)} files")
        tables.check_commit(job, table)
        added = rewrite(job, table, old.mixed, day)
    job.phase(f"committing without {len(old.tasks)} files")
    tables.check_commit(job, table)
    commit(job, table, old, added, tag)
    job.phase("committed")
    return {"deleted_rows": old.rows, "dropped_files": len(old.whole), "rewritten_files": len(old.mixed),
            "snapshots": tables.tagged(job.session, table, tag)}  # fmt: skip


def nothing(job: Job) -> dict[str, Any]:
    return {"deleted_rows": 0, **({} if job.parameters.get("dry_run") is False else would_expire(0, None, [], 0))}


def day_of(job: Job, table: Any) -> Day:
    """By the column as the table has it now; the floor holds whatever the parameters say."""
    name, expressions = job.parameters.get("column"), jvm(job.session).org.apache.iceberg.expressions.Expressions
    kind = next((str(one.type()) for one in table.schema().columns() if str(one.name()) == name), None)
    if not isinstance(name, str) or kind is None or kind not in TIMES:
        raise UnsafeRequest(f"rows do not grow old by {name!r}, which has the type {kind}: nothing was deleted")
    day = day_before(job.parameters, kind)
    text = f"{day:%Y-%m-%d}"
    return Day(
        expressions.lessThan(name, f"{text}{TIMES[kind]}"), f"{identifier(name)} < {day_literal(kind, day)}", text
    )


def find_old(job: Job, table: Any, day: Day) -> Old:
    """By partitions and bounds where these are sure; the rows of other files are read."""
    evaluator = jvm(job.session).org.apache.iceberg.expressions.StrictMetricsEvaluator(table.schema(), day.expression)
    whole, unsure, snapshot = list[Any](), dict[str, Any](), int(table.currentSnapshot().snapshotId())
    with planned(job, table, day, snapshot) as tasks:
        for number, task in enumerate(tasks):
            if not number % 1000:
                job.check()
            # Iceberg takes a file whose number of rows is not known, as of imported Avro tables, for an empty one.
            has_bounds = int(task.file().recordCount()) > 0
            if str(task.residual().op()) == "TRUE" or (has_bounds and evaluator.eval(task.file())):
                whole.append(task)
            else:
                unsure[str(task.file().location())] = task
    counted = count_rows(job, table, list(unsure.values()), day)
    changed = [task for task in whole if len(task.deletes())]
    rows = sum(max(int(task.file().recordCount()), 0) for task in whole if not len(task.deletes()))
    rows += sum(counted.values()) + sum(count_rows(job, table, changed, day).values())
    return Old(snapshot, whole, [unsure[path] for path in counted], rows)


@contextmanager
def planned(job: Job, table: Any, day: Day, snapshot: int) -> Iterator[Any]:
    """Whole files that may have rows before the day, with the bounds of the column."""
    columns = jvm(job.session).java.util.ArrayList()
    columns.add(job.parameters["column"])
    scan = table.newScan().useSnapshot(snapshot).filter(day.expression).includeColumnStats(columns)
    found = scan.planFiles()
    try:
        yield iterate(found.iterator())
    finally:
        found.close()


def iterate(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def count_rows(job: Job, table: Any, tasks: Sequence[Any], day: Day) -> Mapping[str, int]:
    """The rows before the day, by file; only of files that have some."""
    if not tasks:
        return {}
    with staged(job, table, tasks) as (frame, _):
        # Not _file, which the staged rows of a table with row lineage do not have.
        old = frame.where(day.condition).groupBy(sql.input_file_name().alias("file")).count().collect()
    return {row["file"]: row["count"] for row in old}


@contextmanager
def staged(job: Job, table: Any, tasks: Sequence[Any]) -> Iterator[tuple[DataFrame, str]]:
    """The rows of some files, as Iceberg's own rewrites read them; and the name by which they are written anew."""
    spark, name = jvm(job.session).org.apache.iceberg.spark, f"lakehand-{uuid4()}"
    files = jvm(job.session).java.util.ArrayList()
    for task in tasks:
        files.add(task)
    cache = static_method(job.session, TABLE_CACHE, "get")()
    cache.add(name, table)
    spark.ScanTaskSetManager.get().stageTasks(table, name, files)
    try:
        yield job.session.read.format("iceberg").option("scan-task-set-id", name).load(name), name
    finally:
        cache.remove(name)
        spark.ScanTaskSetManager.get().removeTasks(table, name)


def rewrite(job: Job, table: Any, tasks: Sequence[Any], day: Day) -> list[Any]:
    """New files with the rows that stay, those without a value among them."""
    coordinator = jvm(job.session).org.apache.iceberg.spark.FileRewriteCoordinator.get()
    with staged(job, table, tasks) as (frame, name):
        kept = frame.where(f"({day.condition}) IS NOT TRUE").write.format("iceberg")
        # Rows of several partitions may come in any order.
        options = {"rewritten-file-scan-task-set-id": name, "distribution-mode": "none", "fanout-enabled": "true"}
        kept.options(**options).mode("append").save(name)
        try:
            return list(coordinator.fetchNewFiles(table, name))
        finally:
            coordinator.clearRewrite(table, name)


def commit(job: Job, table: Any, old: Old, added: Sequence[Any], tag: str) -> None:
    """Refused by Iceberg if a writer has deleted, rewritten or updated anything in one of these files meanwhile.

    No filter narrows that: a row that a writer deletes must not come back, however young it is.
    """
    util, is_vector = jvm(job.session).org.apache.iceberg.util, jvm(job.session).org.apache.iceberg.util.ContentFileUtil
    gone, vectors = util.DataFileSet.create(), util.DeleteFileSet.create()
    for task in old.tasks:
        gone.add(task.file())
        for one in task.deletes():
            if is_vector.isDV(one):
                vectors.add(one)
    change = table.newOverwrite().deleteFiles(gone, vectors).set(tables.TAG, tag)
    for file in added:
        change.addFile(file)
    change.validateFromSnapshot(old.snapshot).validateNoConflictingDeletes()
    try:
        change.commit()
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getSimpleName()) in REFUSED:
            discard(job, table, added)
        raise


def discard(job: Job, table: Any, added: Sequence[Any]) -> None:
    """Files that nothing refers to. What cannot be deleted is left to a removal of orphans."""
    paths = [str(one.location()) for one in added]
    job.boundary.refuse_outside(paths, doing="delete")
    for path in paths:
        try:
            table.io().deleteFile(path)
        except Py4JJavaError as error:
            job.log(f"{path} was not deleted: {error}")


def report(job: Job, table: Any, old: Old, day: Day) -> dict[str, Any]:
    """Exact, since all rows that would go are read."""
    job.session.conf.set("spark.sql.session.timeZone", "UTC")
    frame = IcebergRows(job).frame(str(old.snapshot)).where(day.condition)
    newest = sql.max(identifier(job.parameters["column"])).cast("string")
    [row] = frame.agg(sql.count(sql.lit(1)).alias("rows"), newest.alias("newest")).collect()
    paths = sorted(str(task.file().location()) for task in old.tasks[:LISTED])
    size = sum(int(task.file().fileSizeInBytes()) for task in old.whole)
    found = would_expire(row["rows"], row["newest"], paths, len(old.tasks), size)
    return {**found, "would_rewrite_files": len(old.mixed)}
