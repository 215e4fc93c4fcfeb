# SPDX-License-Identifier: Apache-2.0
"""Deletes files below the table that nothing refers to: candidates are listed first, references are read second."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import outside, reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.paths import path_part
from lakehand.jobs.safety import UnsafeRequest, cut_off, refuse_implausible

LEAST_HOURS = 72


def run(job: Job) -> dict[str, Any]:
    job.phase("reading the table")
    table = tables.load(job)
    tables.refuse_shared(table)
    outside.refuse_tables_below(job, table)
    oldest = cut_off(job.parameters.get("older_than"), LEAST_HOURS)
    job.phase("listing files")
    listed = reachable.listing(job, table, job.boundary.real)
    total = listed.count()
    job.check()
    job.phase("finding references")
    table.refresh()
    reachable.refuse_cut_off(job, table, listed)
    orphans = unreferenced(job, table, listed).where(sql.col("modified") < oldest).localCheckpoint(eager=True)
    result = {"listed_files": total, "older_than": oldest}
    if job.parameters.get("dry_run"):
        return {**result, **outside.would_delete(orphans)}
    count = orphans.count()
    refuse_implausible(job.parameters, count, total)
    job.check()
    job.phase(f"deleting {count} orphans")
    outside.refuse_tables_below(job, table)
    tables.load(job)
    size = outside.total_bytes(orphans)
    return {**result, "deleted_files": outside.delete(job, table, orphans, "orphan"), "deleted_bytes": size}


def unreferenced(job: Job, table: Any, listed: DataFrame) -> DataFrame:
    live = reachable.everything(job, table).select("key").distinct().localCheckpoint(eager=True)
    if listed.join(data_keys(table, live), "key", "left_semi").isEmpty():
        raise UnsafeRequest(
            "none of the listed files belongs to the table: its metadata seems to spell paths differently"
        )
    outside.refuse_other_spellings(job, live)
    return listed.join(live, "key", "left_anti")


def data_keys(table: Any, live: DataFrame) -> DataFrame:
    """What shows whether paths are spelled alike: data, since metadata is always found where it says that it is."""
    folder = path_part(tables.real_location(tables.metadata_folder(table)))
    data = live.where(~sql.col("key").startswith(f"{folder}/"))
    return live if data.isEmpty() else data
