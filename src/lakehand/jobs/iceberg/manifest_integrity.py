# SPDX-License-Identifier: Apache-2.0
"""Metadata that was cut off: Avro takes such a file for one that ends there, and what it named looks like nobody's."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest

TOTALS = ("total-data-files", "total-delete-files")


def refuse_cut_off(job: Job, table: Any, listed: DataFrame) -> None:
    """``listed`` has the files as the storage shows them: ``key`` and ``length``."""
    manifests = reachable.metadata_table(job.session, table, "ALL_MANIFESTS")
    chosen = manifests.select("path", "length", "reference_snapshot_id")
    told = reachable.keyed(job, table, chosen).localCheckpoint(eager=True)
    found = listed.select("key", sql.col("length").alias("found"))
    if short := told.join(found, "key").where("found < length").first():
        raise UnsafeRequest(f"{short.path} was cut off: it has {short.found} of {short.length} bytes")
    known = {row[0] for row in told.select("reference_snapshot_id").distinct().collect()}
    refuse_empty(tables.document(job.session, table.operations().current()).get("snapshots") or [], known)


def refuse_empty(snapshots: list[dict[str, Any]], known: set[int]) -> None:
    """The length of a list of manifests is told nowhere, but a snapshot with files has manifests."""
    for one in snapshots:
        count = sum(int((one.get("summary") or {}).get(key) or 0) for key in TOTALS)
        if count and one["snapshot-id"] not in known:
            raise UnsafeRequest(
                f"{one.get('manifest-list')} was cut off: it names nothing, and there are {count} files"
            )
