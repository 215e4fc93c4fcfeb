# SPDX-License-Identifier: Apache-2.0
"""Deletes files below the table that nothing refers to: candidates are listed first, references are read second."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import admitted, deletions, manifest_integrity, neighbours, outside, reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, cut_off, refuse_implausible

LEAST_HOURS = 72


def run(job: Job) -> dict[str, Any]:
    job.phase("reading the table")
    table = tables.load(job)
    tables.refuse_shared(table)
    neighbours.refuse_tables_below(job, table)
    oldest = cut_off(job.parameters.get("older_than"), LEAST_HOURS)
    job.phase("listing files")
    listed = reachable.listing(job, table, job.boundary.real)
    total = listed.count()
    job.check()
    job.phase("looking for references")
    table.refresh()
    manifest_integrity.refuse_cut_off(job, table, listed)
    orphans = unreferenced(job, table, listed).where(sql.col("modified") < oldest).localCheckpoint(eager=True)
    told = {"listed_files": total, "older_than": oldest}
    if job.parameters.get("dry_run"):
        return {**told, **deletions.would_delete(orphans)}
    refuse_implausible(orphans.count(), total, is_confirmed=job.parameters.get("confirm") is True)
    job.check()
    job.phase(f"deleting {orphans.count()} orphans")
    neighbours.refuse_tables_below(job, table)
    tables.load(job)
    size = orphans.agg(sql.sum("length")).first()[0] or 0  # type: ignore[index]
    return {**told, "deleted_files": deletions.delete(job, table, orphans, "orphan"), "deleted_bytes": size}


def unreferenced(job: Job, table: Any, listed: DataFrame) -> DataFrame:
    live = reachable.everything(job, table).select("key").distinct().localCheckpoint(eager=True)
    if listed.join(telling(table, live), "key", "left_semi").isEmpty():
        raise UnsafeRequest(
            "none of the listed files belongs to the table: its metadata seems to spell paths differently"
        )
    outside.refuse_other_spellings(job, live)
    return listed.join(live, "key", "left_anti")


def telling(table: Any, live: DataFrame) -> DataFrame:
    """What shows whether paths are spelled alike: data, since metadata is always found where it says that it is."""
    folder = admitted.real_place(str(table.operations().current().metadataFileLocation()).rpartition("/")[0])
    data = live.where(~sql.col("key").startswith(f"{reachable.path_of(folder)}/"))
    return live if data.isEmpty() else data
