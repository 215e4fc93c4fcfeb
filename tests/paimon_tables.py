# SPDX-License-Identifier: Apache-2.0
"""Real Paimon tables for tests: written by Spark SQL, or commit by commit through Paimon's own writer in the driver."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

CATALOG = "lake"
COLUMNS = "id int, v int, p string, note string"
WRITE_ONLY = {"write-only": "true"}
KEYED = {**WRITE_ONLY, "primary-key": "id", "bucket": "16"}
DAY = 86400

Facts = tuple[int, int, int]  # rows, a sum, a hash over all columns


@dataclass(frozen=True)
class Lake:
    """A warehouse with one database, and a session that knows it as a catalog."""

    spark: SparkSession
    warehouse: Path

    @property
    def session(self) -> SparkSession:
        session = self.spark.newSession()
        session.conf.set(f"spark.sql.catalog.{CATALOG}", "org.apache.paimon.spark.SparkCatalog")
        session.conf.set(f"spark.sql.catalog.{CATALOG}.warehouse", str(self.warehouse))
        session.sql(f"CREATE DATABASE IF NOT EXISTS {CATALOG}.shop")
        return session

    def path(self, name: str) -> Path:
        return self.warehouse / "shop.db" / name

    def create(self, name: str, options: Mapping[str, str] = WRITE_ONLY, *, partitioned: bool = False) -> Path:
        listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
        by = "PARTITIONED BY (p)" if partitioned else ""
        properties = f"TBLPROPERTIES ({listed})" if listed else ""
        self.session.sql(f"CREATE TABLE {CATALOG}.shop.`{name}` ({COLUMNS}) {by} {properties}")
        return self.path(name)

    def append(self, name: str, first: int, count: int, *, files: int = 1, partitions: int = 1) -> None:
        """One commit with so many files."""
        rows = self.session.range(first, first + count, 1, files).selectExpr(
            "cast(id AS int) AS id",
            "id * 7 AS v",
            f"concat('p', id % {partitions}) AS p",
            "md5(cast(id AS string)) note",
        )
        rows.writeTo(f"{CATALOG}.shop.`{name}`").append()

    def sql(self, statement: str) -> list[Any]:
        """``{shop}`` stands for the database."""
        return self.session.sql(statement.replace("{shop}", f"{CATALOG}.shop")).collect()

    def facts(self, name: str) -> Facts:
        return facts(self.spark, self.path(name))


def facts(spark: SparkSession, path: Path | str, *, where: str = "true", **options: str) -> Facts:
    frame = spark.newSession().read.format("paimon").options(**options).load(str(path)).where(where)
    [row] = frame.selectExpr(
        "count(1)", "coalesce(sum(v), 0)", "coalesce(sum(cast(xxhash64(*) % 1000000007 AS decimal(38,0))), 0)"
    ).collect()
    return int(row[0]), int(row[1]), int(row[2])


@dataclass(frozen=True)
class Writer:
    """Paimon's own batch writer in the driver: commits without a Spark job, at any moment that a test chooses."""

    spark: SparkSession
    path: Path

    @property
    def jvm(self) -> Any:
        return self.spark.sparkContext._jvm

    def table(self, **options: str) -> Any:
        given = self.jvm.org.apache.paimon.options.Options()
        given.set("path", str(self.path))
        configuration = self.spark._jsparkSession.sessionState().newHadoopConf()
        context = self.jvm.org.apache.paimon.catalog.CatalogContext.create(given, configuration)
        table = self.jvm.org.apache.paimon.table.FileStoreTableFactory.create(context)
        return table.copy({key.replace("_", "-"): value for key, value in options.items()}) if options else table

    def append(self, ids: Iterable[int], *, deleted: bool = False) -> None:
        self.prepare(ids, deleted=deleted)()

    def prepare(self, ids: Iterable[int], *, deleted: bool = False) -> Callable[[], None]:
        """Write now, commit when the answer is called: a writer that others overtake."""
        table, messages = self.written(ids, deleted=deleted)
        return lambda: self.commit(table.newCommit(str(uuid4())), messages)

    def prepare_overwrite(self, ids: Iterable[int]) -> Callable[[], None]:
        """The same for a writer that replaces everything."""
        table, messages = self.written(ids, deleted=False)
        return lambda: self.commit(table.newCommit(str(uuid4())).withOverwrite({}), messages)

    def written(self, ids: Iterable[int], *, deleted: bool) -> tuple[Any, Any]:
        table = self.table()
        write = table.newWrite(str(uuid4()))
        for number in ids:
            write.write(self.row(number, deleted=deleted))
        messages = write.prepareCommit()
        write.close()
        return table, messages

    def delete_files(self, count: int) -> Callable[[], None]:
        """What Spark's DELETE commits to a table without a key when all rows of some files match: prepared now."""
        table = self.table()
        split = table.newSnapshotReader().read().dataSplits()[0]
        nothing, gone = self.jvm.java.util.Collections.emptyList(), split.dataFiles().subList(0, count)
        change = self.jvm.org.apache.paimon.io.DataIncrement(nothing, gone, nothing)
        unchanged = self.jvm.org.apache.paimon.io.CompactIncrement.emptyIncrement()
        kind = self.jvm.org.apache.paimon.table.sink.CommitMessageImpl
        messages = self.jvm.java.util.ArrayList()
        messages.add(kind(split.partition(), split.bucket(), change, unchanged))
        return lambda: self.commit(table.newCommit(str(uuid4())), messages)

    def commit(self, commit: Any, messages: Any) -> None:
        try:
            commit.commit(messages)
        finally:
            commit.close()

    def row(self, number: int, *, deleted: bool) -> Any:
        text = self.jvm.org.apache.paimon.data.BinaryString.fromString
        values = self.spark.sparkContext._gateway.new_array(self.jvm.java.lang.Object, 4)  # type: ignore[union-attr]
        values[0], values[1], values[2], values[3] = number, number * 7, text("p0"), text(f"note {number}")
        kinds = self.jvm.org.apache.paimon.types.RowKind
        kind = kinds.DELETE if deleted else kinds.INSERT
        return self.jvm.org.apache.paimon.data.GenericRow.ofKind(kind, values)


def snapshots(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(file.read_text()) for file in path.glob("snapshot/snapshot-*")]
    return sorted(found, key=lambda one: int(one["id"]))


def age(path: Path, days: float, *, but: int = 0) -> None:
    """Make a table look as if all but its newest snapshots, and all its files, were so many days old."""
    for document in snapshots(path)[: -but or None]:
        document["timeMillis"] -= int(days * DAY * 1000)
        (path / "snapshot" / f"snapshot-{document['id']}").write_text(json.dumps(document))
    for file in path.rglob("*"):
        if file.is_file():
            os.utime(file, (file.stat().st_mtime - days * DAY,) * 2)


def age_tags(path: Path, days: int) -> None:
    """Let tags that have a time of their own seem to have been made so many days ago."""
    for file in path.glob("tag/tag-*"):
        own = json.loads(file.read_text())
        if "tagCreateTime" in own:
            made = datetime(*own["tagCreateTime"][:6]) - timedelta(days=days)  # noqa: DTZ001 - as Paimon has it
            file.write_text(json.dumps({**own, "tagCreateTime": [*made.timetuple()[:6]]}))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def live_files(path: Path) -> set[Path]:
    """Everything on disk that is not a folder."""
    return {file.relative_to(path) for file in path.rglob("*") if file.is_file()}
