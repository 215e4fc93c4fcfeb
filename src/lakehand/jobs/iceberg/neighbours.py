# SPDX-License-Identifier: Apache-2.0
"""Other tables in a table's folder or below it: they need files that ours does not, so none is deleted there."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import tables
from lakehand.jobs.iceberg.refusals import Refused
from lakehand.jobs.job import Job

MARKS = ("_delta_log", ".hoodie", "_versions")  # hidden from a listing
MARKS_HERE = (*MARKS, "snapshot/LATEST")
METADATA = r"/metadata/(version-hint\.text|[^/]*\.metadata\.json(\.gz)?)$"
PAIMON = r"/snapshot/(LATEST|EARLIEST|snapshot-[0-9]+)$"
LOOKED_INTO = 2000  # folders


def refuse_another_here(job: Job, table: Any) -> None:
    """Some tools give one folder two formats: the other one's history still needs what ours has replaced."""
    if marked := marked_folder(job, table, [""], MARKS_HERE):
        raise Refused(f"a table of another format has the same place: {marked}")


def refuse_tables_within(job: Job, table: Any, listed: DataFrame, orphans: DataFrame) -> None:
    root = tables.path_of(table.location())
    own = tables.path_of(folder_of(str(table.operations().current().metadataFileLocation())))
    foreign = sql.col("key").rlike(METADATA) & ~sql.col("key").startswith(f"{own}/")
    inside = listed.where((foreign | sql.col("key").rlike(PAIMON)) & sql.col("key").startswith(f"{root}/")).first()
    if inside is not None:
        raise Refused(f"another table lies below this one: {inside.path}")
    if marked := marked_folder(job, table, folders(root, orphans), MARKS):
        raise Refused(f"another table lies below this one: {marked}")


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def marked_folder(job: Job, table: Any, relative: list[str], marks: tuple[str, ...]) -> str | None:
    """The mark of the first of the folders that is a table of another format."""
    jvm = tables.java(job.session)
    base = jvm.org.apache.hadoop.fs.Path(table.location())
    files = base.getFileSystem(job.session._jsparkSession.sessionState().newHadoopConf())
    for folder in relative:
        for mark in marks:
            path = jvm.org.apache.hadoop.fs.Path(base, f"./{folder}/{mark}")
            if files.exists(path):
                return str(path.toString())
    return None


def folders(root: str, orphans: DataFrame) -> list[str]:
    """Folders above orphans, relative to the table, the highest first."""
    parents = orphans.select(sql.regexp_replace("key", "/[^/]*$", "").alias("folder")).distinct()
    found: set[str] = set()
    for row in parents.limit(LOOKED_INTO).collect():
        parts = row.folder.removeprefix(root).strip("/").split("/")
        found.update("/".join(parts[: depth + 1]) for depth in range(len(parts)) if parts[0])
    return sorted(found, key=lambda folder: (folder.count("/"), folder))[:LOOKED_INTO]
