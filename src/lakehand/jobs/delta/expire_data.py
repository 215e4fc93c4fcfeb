# SPDX-License-Identifier: Apache-2.0
"""Deletes the rows before a day by one DELETE of Delta: whole partitions by the log alone, others as Delta does."""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.delta import tables
from lakehand.jobs.delta.rewrites import check_table
from lakehand.jobs.job import Job
from lakehand.jobs.safety import (
    LISTED,
    MOST_ROWS,
    UnsafeRequest,
    day_before,
    day_literal,
    refuse_implausible,
    would_expire,
)
from lakehand.jobs.spark import identifier

# The types that rows may grow old by, as Spark calls them and as ``day_literal`` does.
TYPES = {"date": "date", "timestamp": "timestamp with zone", "timestamp_ntz": "timestamp"}
PARTITION_TYPES = frozenset({"date"})  # a time among partition values is in the zone of whoever wrote it


class Day(NamedTuple):
    condition: str  # as Spark SQL reads it
    text: str


def run(job: Job) -> dict[str, Any]:
    job.phase("checking the boundary")
    snapshot = check_table(job)
    # Delta would merge small files after the deletion, in a commit that has the tag, too.
    tables.configure(job, autoCompact__enabled="false")
    job.phase("reading the history")
    day = day_of(job, snapshot)
    if done := [int(one["version"]) for one in tables.own_commits(job)]:
        return {"already_done": True, "versions": done, "nothing_to_do": False}
    job.check()
    tables.refuse_foreign_files(job, snapshot)
    job.phase(f"looking for rows before {day.text}")
    frame = job.session.read.format("delta").option("versionAsOf", int(snapshot.version()))
    rows = frame.load(job.boundary.real)
    if job.parameters.get("dry_run") is not False:
        return report(job, rows.where(day.condition))
    old = rows.where(day.condition).count()
    if not old:
        return {"already_done": False, "nothing_to_do": True, "deleted_rows": 0}
    what = f"are rows before {day.text}"
    refuse_implausible(job.parameters, old, rows.count(), what=what, of="rows", most=MOST_ROWS)
    job.check()
    job.phase(f"deleting {old} rows")
    tables.refuse_foreign_files(job, check_table(job))
    statement = f"DELETE FROM {tables.table_name(job)} WHERE {day.condition}"  # noqa: S608 - quoted
    job.session.sql(statement).collect()
    job.note("deleted_rows", old)
    return {"already_done": False, "nothing_to_do": False, "deleted_rows": old}


def day_of(job: Job, snapshot: Any) -> Day:
    """By the column as the table has it now; the floor holds whatever the parameters say."""
    name = job.parameters.get("column")
    kind = next((str(one.dataType().typeName()) for one in snapshot.schema().fields() if str(one.name()) == name), None)
    is_odd = name in tables.partition_columns(snapshot) and kind not in PARTITION_TYPES
    if not isinstance(name, str) or kind is None or kind not in TYPES or is_odd:
        raise UnsafeRequest(f"rows do not grow old by {name!r}, which has the type {kind}: nothing was deleted")
    day = day_before(job.parameters, TYPES[kind])
    return Day(f"{identifier(name)} < {day_literal(TYPES[kind], day)}", f"{day:%Y-%m-%d}")


def report(job: Job, old: DataFrame) -> dict[str, Any]:
    job.session.conf.set("spark.sql.session.timeZone", "UTC")
    newest = sql.max(identifier(job.parameters["column"])).cast("string").alias("newest")
    files = old.groupBy(sql.input_file_name().alias("file")).agg(sql.count(sql.lit(1)).alias("rows"), newest).collect()
    listed = sorted(row["file"] for row in files)[:LISTED]
    return would_expire(
        sum(row["rows"] for row in files), max((row["newest"] for row in files), default=None), listed, len(files)
    )
