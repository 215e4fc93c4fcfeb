# SPDX-License-Identifier: Apache-2.0
"""Every file that a table's metadata refers to, over all its snapshots.

References are compared by path alone, without scheme, host and bucket: ``s3``, ``s3a`` and no scheme at all may mean
the same file, and a spelling that is not understood must never make a live file look like an orphan. The price: a file
is kept when the metadata names the same path in another bucket. Which files may be deleted is another question, and
there the bucket counts (``outside``). On local disks a table may be known by a link: keys have the folder's real name.
"""

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import tables
from lakehand.jobs.job import Job
from lakehand.jobs.paths import path_part
from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import jvm

STORE = r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?"
LONGEST = 2**31 - 1
COLUMNS = {"ALL_FILES": "file_path", "ALL_MANIFESTS": "path", "SNAPSHOTS": "manifest_list"}
TOTALS = ("total-data-files", "total-delete-files")


def key(column: str) -> Column:
    """The path alone, for the reason above."""
    return sql.regexp_replace(sql.regexp_replace(sql.col(column), STORE, ""), "/+", "/")


def content(job: Job, table: Any) -> DataFrame:
    """Data, deletes (deletion vectors, too), manifests, their lists and statistics: ``path`` and ``key``."""
    parts = [
        metadata_table(job.session, table, kind).select(sql.col(column).alias("path"))
        for kind, column in COLUMNS.items()
    ]
    named = statistics(tables.document(job.session, table.operations().current()))
    return keyed(job, table, reduce(DataFrame.unionAll, [*parts, texts(job.session, named)]))


def everything(job: Job, table: Any) -> DataFrame:
    """The content, and the metadata files that are current, logged, or hint at the current one."""
    session, current = job.session, table.operations().current()
    logged = [entry["metadata-file"] for entry in tables.document(session, current).get("metadata-log") or []]
    hint = jvm(session).org.apache.iceberg.ReachableFileUtil.versionHintLocation(table)
    named = texts(session, [*logged, str(current.metadataFileLocation()), str(hint)])
    return content(job, table).unionAll(keyed(job, table, named))


def listing(job: Job, table: Any, folder: str) -> DataFrame:
    """Every file that is not hidden, as it is now: stored, so that it cannot be listed again later."""
    job.session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    files = job.session.read.format("binaryFile").option("recursiveFileLookup", "true")
    found = files.option("__globPaths__", "false").load(folder)
    chosen = found.select("path", sql.expr("unix_millis(modificationTime)").alias("modified"), "length")
    return keyed(job, table, chosen).localCheckpoint(eager=True)


def statistics(document: dict[str, Any]) -> list[str]:
    kinds = ("statistics", "partition-statistics")
    return [entry["statistics-path"] for kind in kinds for entry in document.get(kind) or []]


def metadata_table(session: SparkSession, table: Any, kind: str, snapshot: int | None = None) -> DataFrame:
    """At the current snapshot, unless another is named."""
    java = jvm(session)
    options = java.java.util.HashMap()
    if snapshot is not None:
        options.put("snapshot-id", str(snapshot))
    type_ = java.org.apache.iceberg.MetadataTableType.valueOf(kind)
    load = java.org.apache.iceberg.spark.SparkTableUtil.loadMetadataTable
    return DataFrame(load(session._jsparkSession, table, type_, options), session)


def texts(session: SparkSession, paths: list[str]) -> DataFrame:
    """Paths of any characters, without Python workers, which a plain ``createDataFrame`` would start."""
    rows = ", ".join(f"(decode(unhex('{path.encode().hex()}'), 'UTF-8'))" for path in paths) or "(cast(null as string))"
    return session.sql(f"SELECT path FROM VALUES {rows} AS t(path) WHERE path IS NOT NULL")  # noqa: S608 - quoted


def keyed(job: Job, table: Any, frame: DataFrame) -> DataFrame:
    plain, real = key("path"), path_part(job.boundary.real)
    whole = plain
    for name in {path_part(str(table.location())), path_part(job.boundary.location)} - {real}:
        renamed = sql.concat(sql.lit(real), plain.substr(len(name) + 1, LONGEST))
        whole = sql.when(plain.startswith(f"{name}/"), renamed).otherwise(whole)
    return frame.withColumn("key", whole)


def refuse_cut_off(job: Job, table: Any, listed: DataFrame) -> None:
    """Raise if metadata was cut off: Avro takes it for a shorter file, and what it named looks like orphans.

    ``listed`` has the files as the storage shows them: ``key`` and ``length``.
    """
    manifests = metadata_table(job.session, table, "ALL_MANIFESTS")
    chosen = manifests.select("path", "length", "reference_snapshot_id")
    named = keyed(job, table, chosen).localCheckpoint(eager=True)
    found = listed.select("key", sql.col("length").alias("found"))
    if short := named.join(found, "key").where("found < length").first():
        raise UnsafeRequest(f"{short.path} was cut off: it has {short.found} of {short.length} bytes")
    known = {row[0] for row in named.select("reference_snapshot_id").distinct().collect()}
    refuse_empty(tables.document(job.session, table.operations().current()).get("snapshots") or [], known)


def refuse_empty(snapshots: list[dict[str, Any]], known: set[int]) -> None:
    """The length of a list of manifests is recorded nowhere, but a snapshot with files has manifests."""
    for one in snapshots:
        count = sum(int((one.get("summary") or {}).get(key) or 0) for key in TOTALS)
        if count and one["snapshot-id"] not in known:
            raise UnsafeRequest(
                f"{one.get('manifest-list')} was cut off: it names nothing, and there are {count} files"
            )
