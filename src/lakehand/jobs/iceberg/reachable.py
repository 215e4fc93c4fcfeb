# SPDX-License-Identifier: Apache-2.0
"""Every file that a table's metadata refers to, over all its snapshots; compared by path, never by scheme or host."""

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from lakehand.jobs.iceberg import tables

STORE = r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?"
COLUMNS = {"ALL_FILES": "file_path", "ALL_MANIFESTS": "path", "SNAPSHOTS": "manifest_list"}


def key(column: str) -> Column:
    """The path alone: ``s3``, ``s3a`` and no scheme at all may mean the same file, and then it must look the same."""
    return sql.regexp_replace(sql.regexp_replace(sql.col(column), STORE, ""), "/+", "/")


def content(session: SparkSession, table: Any) -> DataFrame:
    """Data, deletes (deletion vectors, too), manifests, their lists and statistics: ``path`` and ``key``."""
    parts = [
        metadata_table(session, table, kind).select(sql.col(column).alias("path")) for kind, column in COLUMNS.items()
    ]
    named = statistics(tables.document(session, table.operations().current()))
    return keyed(reduce(DataFrame.unionAll, [*parts, texts(session, named)]))


def everything(session: SparkSession, table: Any) -> DataFrame:
    """The content, and the metadata files that are current, logged, or hint at the current one."""
    current = table.operations().current()
    logged = [entry["metadata-file"] for entry in tables.document(session, current).get("metadata-log") or []]
    hint = tables.java(session).org.apache.iceberg.ReachableFileUtil.versionHintLocation(table)
    return content(session, table).unionAll(
        keyed(texts(session, [*logged, str(current.metadataFileLocation()), str(hint)]))
    )


def listing(session: SparkSession, location: str) -> DataFrame:
    """Every file that is not hidden, as it is now: kept, so that it cannot be listed again later."""
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    files = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    found = files.option("__globPaths__", "false").load(location)
    chosen = found.select("path", sql.expr("unix_millis(modificationTime)").alias("modified"), "length")
    return keyed(chosen).localCheckpoint(eager=True)


def statistics(document: dict[str, Any]) -> list[str]:
    kinds = ("statistics", "partition-statistics")
    return [entry["statistics-path"] for kind in kinds for entry in document.get(kind) or []]


def metadata_table(session: SparkSession, table: Any, kind: str) -> DataFrame:
    iceberg = tables.java(session).org.apache.iceberg
    type_ = iceberg.MetadataTableType.valueOf(kind)
    return DataFrame(iceberg.spark.SparkTableUtil.loadMetadataTable(session._jsparkSession, table, type_), session)


def texts(session: SparkSession, paths: list[str]) -> DataFrame:
    """Without Python workers, which a plain ``createDataFrame`` would start."""
    rows = ", ".join(f"({literal(path)})" for path in paths) or "(cast(null as string))"
    return session.sql(f"SELECT path FROM VALUES {rows} AS t(path) WHERE path IS NOT NULL")  # noqa: S608 - quoted


def literal(text: str) -> str:
    return "decode(unhex('" + text.encode().hex() + "'), 'UTF-8')"


def keyed(frame: DataFrame) -> DataFrame:
    return frame.withColumn("key", key("path"))
