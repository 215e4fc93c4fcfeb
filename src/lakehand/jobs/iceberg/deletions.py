# SPDX-License-Identifier: Apache-2.0
"""Deleting files in batches, and telling what would be deleted; each batch asks first whether the job may go on.

The caller has left out what is not the table's. A path that leads outside all the same goes through a new link, and
ends the job.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import tables
from lakehand.jobs.job import Job

BATCH = 1000
SHOWN = 1000


def would_delete(files: DataFrame) -> dict[str, Any]:
    """What a dry run says; ``bytes`` where the frame has a column ``length``."""
    told: dict[str, Any] = {"would_delete_files": files.count()}
    if "length" in files.columns:
        told["would_delete_bytes"] = files.agg(sql.sum("length")).first()[0] or 0  # type: ignore[index]
    told["would_delete"] = [row.path for row in files.select("path").orderBy("path").limit(SHOWN).collect()]
    return told


def delete(job: Job, table: Any, files: DataFrame, kind: str) -> int:
    """Through the table's own file access, so that it needs no other rights than the table does."""
    gone = 0
    paths = (row.path for row in files.select("path").toLocalIterator())
    for batch in batches(paths):
        job.check()
        job.boundary.check_path()
        job.boundary.refuse_outside(batch, doing="delete")
        names = tables.java(job.session).java.util.ArrayList()
        for path in batch:
            names.add(path)
        tables.java(job.session).org.apache.iceberg.CatalogUtil.deleteFiles(table.io(), names, kind, True)
        gone += len(batch)
        job.phase(f"deleted {gone} {kind} files")
    return gone


def batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(paths, BATCH)):
        yield batch
