# SPDX-License-Identifier: Apache-2.0
"""One damaged table per format, made as its writers make them, and the same way for all to see what a reader sees."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import hudi_tables
from tests.kit.templates import made_once

COMMITS, FILES_EACH, ROWS_EACH = 3, 8, 2_000
Facts = tuple[int, int, int]  # rows, sum of v, and a hash over all columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """How a table of a format is spoiled and read, and which action mends it."""

    format: str
    action: str
    make: Callable[..., None]  # session, path, and how many rows each commit has
    read: Callable[[SparkSession, Path], Facts]
    rewrites: Callable[[Path], int]  # how many rewrites the table's own history shows

    def data_files(self, path: Path) -> set[str]:
        suffix = "*.lance" if self.format == "lance" else "*.parquet"
        return {file.name for file in path.rglob(suffix)}


def rows(session: SparkSession, number: int, count: int = ROWS_EACH) -> DataFrame:
    first = number * count
    columns = ["id", "cast(id * 3 as bigint) as v", "concat('note ', sha2(cast(id as string), 256)) as note"]
    return session.range(first, first + count).selectExpr(*columns).repartition(FILES_EACH)


def make_delta(session: SparkSession, path: Path, count: int = ROWS_EACH) -> None:
    for number in range(COMMITS):
        rows(session, number, count).write.format("delta").mode("append").save(str(path))


def make_iceberg(session: SparkSession, path: Path, count: int = ROWS_EACH) -> None:
    own, name = hadoop_catalog(session, path)
    own.sql(f"CREATE TABLE {name} (id bigint, v bigint, note string) USING iceberg")
    for number in range(COMMITS):
        rows(own, number, count).writeTo(name).option("distribution-mode", "none").append()


def hadoop_catalog(session: SparkSession, path: Path) -> tuple[SparkSession, str]:
    """A session with a catalog over the table's parent folder, and the table's name in it."""
    own, catalog = session.newSession(), f"ice_{uuid4().hex[:8]}"
    own.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    own.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    own.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(path.parent))
    own.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
    return own, f"{catalog}.`{path.name}`"


def make_paimon(session: SparkSession, path: Path, count: int = ROWS_EACH) -> None:
    own, name = paimon_catalog(session, path)
    own.sql(f"CREATE DATABASE IF NOT EXISTS {name.rsplit('.', 1)[0]}")
    own.sql(
        f"CREATE TABLE {name} (id bigint, v bigint, note string) TBLPROPERTIES ('bucket'='-1', 'write-only'='true')"
    )
    for number in range(COMMITS):
        rows(own, number, count).createOrReplaceTempView("fresh")
        own.sql(f"INSERT INTO {name} SELECT * FROM fresh")


def paimon_catalog(session: SparkSession, path: Path) -> tuple[SparkSession, str]:
    own, catalog = session.newSession(), f"pai_{uuid4().hex[:8]}"
    own.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.paimon.spark.SparkCatalog")
    own.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(path.parent.parent))
    return own, f"{catalog}.{path.parent.name.removesuffix('.db')}.`{path.name}`"


def make_lance(session: SparkSession, path: Path, count: int = ROWS_EACH) -> None:
    import lance

    size = count // FILES_EACH
    for number in range(COMMITS * FILES_EACH):
        ids = range(number * size, number * size + size)
        notes = ["note " + hashlib.sha256(str(i).encode()).hexdigest() for i in ids]
        table = pa.table({"id": list(ids), "v": [i * 3 for i in ids], "note": notes})
        lance.write_dataset(table, str(path), mode="append" if number else "create")


def make_hudi(session: SparkSession, path: Path) -> None:
    hudi_tables.make_table(session, path, commits=3, options=hudi_tables.scheduling_compaction(2))


def read_delta(session: SparkSession, path: Path) -> Facts:
    return facts_of(session.read.format("delta").load(str(path)))


def read_iceberg(session: SparkSession, path: Path) -> Facts:
    own, name = hadoop_catalog(session, path)
    return facts_of(own.table(name))


def read_paimon(session: SparkSession, path: Path) -> Facts:
    own, name = paimon_catalog(session, path)
    return facts_of(own.table(name))


def read_hudi(session: SparkSession, path: Path) -> Facts:
    return facts_of(session.read.format("hudi").load(str(path)).select("id", "v", "note"))


def read_lance(session: SparkSession, path: Path) -> Facts:
    import lance

    found = lance.dataset(str(path)).to_table().to_pylist()
    digest = sum(hash_of(f"{row['id']}|{row['v']}|{row['note']}") for row in found)
    return len(found), sum(row["v"] for row in found), digest


def hudi_rewrites(path: Path) -> int:
    return len(list((path / ".hoodie" / "timeline").glob("*_*.commit")))


def iceberg_rewrites(path: Path) -> int:
    newest = (path / "metadata" / "version-hint.text").read_text().strip()
    snapshots = json.loads((path / "metadata" / f"v{newest}.metadata.json").read_text())["snapshots"]
    return sum(snapshot["summary"]["operation"] == "replace" for snapshot in snapshots)


def delta_rewrites(path: Path) -> int:
    commits = [json.loads(line) for file in path.glob("_delta_log/*.json") for line in file.read_text().splitlines()]
    return sum(one.get("commitInfo", {}).get("operation") == "OPTIMIZE" for one in commits)


def paimon_rewrites(path: Path) -> int:
    snapshots = [json.loads(file.read_text()) for file in path.glob("snapshot/snapshot-*")]
    return sum(snapshot["commitKind"] == "COMPACT" for snapshot in snapshots)


def lance_rewrites(path: Path) -> int:
    return len(list(path.glob("_versions/*.manifest"))) - COMMITS * FILES_EACH


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def facts_of(frame: DataFrame) -> Facts:
    [row] = frame.selectExpr("count(1)", "sum(v)", "sum(cast(xxhash64(*) % 1000000007 as decimal(38,0)))").collect()
    return int(row[0]), int(row[1]), int(row[2])


DAMAGES: Mapping[str, Damage] = {
    one.format: one
    for one in (
        Damage(format="hudi", action="compaction", make=make_hudi, read=read_hudi, rewrites=hudi_rewrites),
        Damage(
            format="iceberg", action="rewrite-data", make=make_iceberg, read=read_iceberg, rewrites=iceberg_rewrites
        ),
        Damage(format="delta", action="optimize", make=make_delta, read=read_delta, rewrites=delta_rewrites),
        Damage(format="paimon", action="compact", make=make_paimon, read=read_paimon, rewrites=paimon_rewrites),
        Damage(format="lance", action="compact", make=make_lance, read=read_lance, rewrites=lance_rewrites),
    )
}


def place(session: SparkSession, lake: Path, factory: pytest.TempPathFactory, damage: Damage, name: str) -> Path:
    """A damaged table of this name: a copy of one that is made once, unless the format keeps absolute paths."""
    path = table_reference(lake, damage.format, name)
    if damage.format == "iceberg":
        damage.make(session, path)
        return path
    made = made_once(
        factory,
        f"damaged/{damage.format}",
        lambda folder: damage.make(session, table_reference(folder, damage.format, "t")),
    )
    return Path(shutil.copytree(table_reference(made, damage.format, "t"), path))


def table_reference(lake: Path, format: str, name: str) -> Path:
    """Paimon's folders are named after databases."""
    return lake / "shop.db" / name if format == "paimon" else lake / name
