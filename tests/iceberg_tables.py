# SPDX-License-Identifier: Apache-2.0
"""Real Iceberg tables for tests, written by PySpark, with the damage that writers do."""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

DAY = 86_400_000  # milliseconds
MERGE_ON_READ = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
PLAIN = {"write.distribution-mode": "none", **MERGE_ON_READ}


@dataclass(frozen=True)
class Warehouse:
    """A folder with tables, and a session that knows it as a catalog."""

    session: SparkSession
    catalog: str
    folder: Path

    def sql(self, text: str) -> list[Any]:
        return self.session.sql(text).collect()

    def name(self, table: Path) -> str:
        return f"{self.catalog}.`{table.name}`"

    def create(self, table: Path, *, version: int = 2, partitioned: bool = True, **properties: str) -> Path:
        settings = {"format-version": str(version), **PLAIN, **{k.replace("_", "."): v for k, v in properties.items()}}
        pairs = ", ".join(f"'{key}'='{value}'" for key, value in settings.items())
        parts = "PARTITIONED BY (p)" if partitioned else ""
        columns = "id bigint, p string, v double, note string"
        self.sql(f"CREATE TABLE {self.name(table)} ({columns}) USING iceberg {parts} TBLPROPERTIES ({pairs})")
        return table

    def append(self, table: Path, *, files: int = 1, rows: int = 10, start: int = 0) -> None:
        """So many files in each of two partitions."""
        frame = self.session.range(start, start + rows).selectExpr(
            "id", "concat('p', id % 2) p", "id * 1.5 v", "concat('note ', id) note"
        )
        frame.repartition(files).writeTo(self.name(table)).append()

    def delete(self, table: Path, condition: str) -> None:
        self.sql(f"DELETE FROM {self.name(table)} WHERE {condition}")

    def checksum(self, table: Path) -> tuple[Any, ...]:
        """Rows, a sum, and a hash over all columns, as a fresh reader sees them."""
        columns = "count(*), sum(id), sum(cast(xxhash64(*) as decimal(38, 0)))"
        return tuple(self.sql(f"SELECT {columns} FROM {self.name(table)}")[0])


def open_warehouse(spark: SparkSession, folder: Path) -> Warehouse:
    session, catalog = spark.newSession(), f"tests_{uuid4().hex[:8]}"
    for key, value in hadoop_catalog(catalog, folder).items():
        session.conf.set(key, value)
    return Warehouse(session, catalog, folder)


def hadoop_catalog(name: str, folder: Path) -> Mapping[str, str]:
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "hadoop",
        f"{prefix}.warehouse": str(folder),
        f"{prefix}.cache-enabled": "false",
    }


def small_files(warehouse: Warehouse, table: Path, *, version: int = 2, files: int = 50) -> Path:
    """Twice so many small files, with deleted rows in most of them."""
    warehouse.create(table, version=version)
    warehouse.append(table, files=files, rows=files * 20)
    warehouse.delete(table, "id % 10 = 3")
    warehouse.delete(table, "id % 10 = 4")
    return table


def many_snapshots(warehouse: Warehouse, table: Path, *, count: int = 12) -> Path:
    warehouse.create(table)
    for number in range(count):
        warehouse.append(table, rows=10, start=number * 10)
    return table


def metadata_file(table: Path) -> Path:
    version = (table / "metadata" / "version-hint.text").read_text().strip()
    return table / "metadata" / f"v{version}.metadata.json"


def metadata(table: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(metadata_file(table).read_text())
    return found


def edit(table: Path, document: Mapping[str, Any]) -> None:
    """Put another document in the place of the current metadata, without its checksum."""
    file = metadata_file(table)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(json.dumps(document))


def age(table: Path, days: float) -> None:
    """Make the whole table so much older: its history, and its files."""
    document = metadata(table)
    age_history(document, days)
    edit(table, document)
    for file in files(table):
        age_file(file, days)


def age_history(document: dict[str, Any], days: float) -> None:
    for entry in [*document["snapshots"], *document["snapshot-log"], *document["metadata-log"]]:
        entry["timestamp-ms"] -= int(days * DAY)
    document["last-updated-ms"] -= int(days * DAY)


def age_file(file: Path, days: float) -> None:
    then = time.time() - days * DAY / 1000
    os.utime(file, (then, then))


def files(table: Path) -> Iterator[Path]:
    return (file for file in table.rglob("*") if file.is_file())


def data_files(table: Path) -> set[Path]:
    return {file for file in files(table / "data") if not file.name.startswith(".")}


def operations(table: Path) -> list[str]:
    """What the snapshots did, oldest first."""
    return [snapshot["summary"]["operation"] for snapshot in metadata(table)["snapshots"]]


def snapshot_ids(table: Path) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in metadata(table)["snapshots"]]


def restore(backup: Path, table: Path) -> Path:
    """A damaged table again, in its own place: Iceberg's metadata names absolute paths."""
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(backup, table, copy_function=shutil.copy2)
    return table
