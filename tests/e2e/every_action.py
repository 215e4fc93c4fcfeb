# SPDX-License-Identifier: Apache-2.0
"""For each format and action a real table that needs it: small files, deletes, old snapshots, lost files.

No table is larger than its action needs: what counts as many is set low for it.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from tests import delta_tables as delta
from tests import hudi_failures, lance_tables
from tests import hudi_tables as hudi
from tests import iceberg_tables as iceberg
from tests import paimon_tables as paimon
from tests.jobs.hudi.service import LOCKING, SERVICE
from tests.kit.templates import made_once
from tests.paimon_tables import Lake, Writer

LOST, DAYS = 3, 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """A table that needs some actions: how it is spoiled, registered and read."""

    format: str
    actions: Sequence[str]
    spoil: Callable[[SparkSession, Path], object]
    further: Callable[[Path], object] = lambda _: None  # what is done to this one only
    facts: Callable[[SparkSession, Any], object]  # given its path, or its URI
    values: Mapping[str, Any] = field(default_factory=dict)  # of the registration
    name: str = ""

    def reference(self, lake: Path) -> Path:
        name = self.name or f"{self.format}_{'_and_'.join(self.actions)}".replace("-", "_")
        return lake / "shop.db" / name if self.format == "paimon" else lake / name


class Spoiler:
    """Makes tables in a lake: copies of templates, where a format's tables hold no absolute paths."""

    def __init__(self, spark: SparkSession, lake: Path, factory: pytest.TempPathFactory) -> None:
        self.spark, self.lake, self.factory = spark, lake, factory
        self.known: dict[object, object] = {}

    def make(self, need: Need) -> Path:
        path = need.reference(self.lake)
        if need.format == "iceberg":
            need.spoil(self.spark, path)
        else:
            shutil.copytree(self.template(need), path)
        need.further(path)
        return path

    def facts(self, need: Need) -> object:
        """Of a table that nothing was done to yet. Those of copies are read once, from what they were copied from."""
        if need.format == "iceberg":
            return need.facts(self.spark, need.reference(self.lake))
        key = (need.spoil, need.facts)
        if key not in self.known:
            self.known[key] = need.facts(self.spark, self.template(need))
        return self.known[key]

    def template(self, need: Need) -> Path:
        own = replace(need, name=need.spoil.__name__)
        made = made_once(self.factory, f"spoiled/{own.name}", lambda lake: own.spoil(self.spark, own.reference(lake)))
        return own.reference(made)


def settings(**properties: str) -> dict[str, Any]:
    """Properties with ``__`` for dots and ``_`` for hyphens."""
    return {"properties": {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}}


def lose_files(folder: Path, like: str, *, days: int = DAYS, count: int = LOST) -> None:
    """What a writer leaves that died before its commit, some days ago."""
    [first, *_] = sorted(folder.glob(like))
    then = time.time() - days * 86_400
    for number in range(count):
        lost = Path(shutil.copy(first, first.with_name(f"lost-{number}{first.suffix}")))
        os.utime(lost, (then, then))


def icebergs(spoil: Callable[[iceberg.Warehouse, Path], object]) -> Callable[[SparkSession, Path], object]:
    return lambda spark, path: spoil(iceberg.open_warehouse(spark, path.parent), path)


def iceberg_facts(spark: SparkSession, path: Path) -> object:
    return iceberg.open_warehouse(spark, path.parent).checksum(path)


def write_small_files(warehouse: iceberg.Warehouse, table: Path) -> None:
    iceberg.small_files(warehouse, table, files=6)


def delete_now_and_then(warehouse: iceberg.Warehouse, table: Path) -> None:
    warehouse.create(table, partitioned=False, write_delete_granularity="partition")
    warehouse.append(table, files=3, rows=60)
    for number in range(3):
        warehouse.delete(table, f"id % 10 = {number}")


def append_now_and_then(warehouse: iceberg.Warehouse, table: Path) -> None:
    """Snapshots, and a manifest for each of them."""
    iceberg.many_snapshots(warehouse, table, count=5)


def write_files(warehouse: iceberg.Warehouse, table: Path) -> None:
    warehouse.create(table)
    warehouse.append(table, files=4, rows=80)


def outdate_iceberg(table: Path) -> None:
    iceberg.age(table, DAYS)


def lose_iceberg_files(table: Path) -> None:
    iceberg.age(table, DAYS)
    lose_files(table, "data/p=p0/*.parquet")


def append_a_little(warehouse: iceberg.Warehouse, table: Path) -> None:
    """Rows that nobody has counted yet."""
    warehouse.create(table)
    warehouse.append(table, rows=20)


def date_iceberg(warehouse: iceberg.Warehouse, table: Path) -> None:
    """Of five days, two are old."""
    name = warehouse.name(table)
    warehouse.sql(f"CREATE TABLE {name} (id bigint, day date) USING iceberg PARTITIONED BY (day)")
    warehouse.sql(f"INSERT INTO {name} VALUES {dated_rows()}")


def dated_rows() -> str:
    days = ("2024-01-01", "2024-01-02", "2098-01-01", "2098-01-02", "2099-01-01")
    return ", ".join(f"({number}, DATE '{day}')" for number, day in enumerate(days))


def young_iceberg_facts(spark: SparkSession, path: Path) -> object:
    """Old rows are deleted on purpose; these are not."""
    return young_rows(iceberg.open_warehouse(spark, path.parent), path)


def young_rows(warehouse: iceberg.Warehouse, table: Path) -> object:
    return warehouse.sql(f"SELECT * FROM {warehouse.name(table)} WHERE day > '2098-01-01' ORDER BY id")


def spoil_delta(spark: SparkSession, path: Path) -> None:
    delta.make_table(spark, path, commits=2, files=3)
    delta.delete(spark, path, "id % 10 = 3")


def outdate_delta(spark: SparkSession, path: Path) -> None:
    delta.make_table(spark, path, commits=1, files=4)
    spark.newSession().sql(f"OPTIMIZE {delta.quoted(path)}").collect()
    delta.age(spark, path, DAYS)


def date_delta(spark: SparkSession, path: Path) -> None:
    """Of five days, two are old."""
    columns = "(id bigint, day date) USING delta PARTITIONED BY (day)"
    spark.sql(f"CREATE TABLE {delta.quoted(path)} {columns}")
    spark.sql(f"INSERT INTO {delta.quoted(path)} VALUES {dated_rows()}")


def young_delta_facts(spark: SparkSession, path: Path | str) -> object:
    """Old rows are deleted on purpose; these are not."""
    return spark.read.format("delta").load(str(path)).where("day > '2098-01-01'").orderBy("id").collect()


def lengthen_log(spark: SparkSession, path: Path) -> None:
    """A log with checkpoints, of which most is past its retention."""
    settings = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 7 days"}
    delta.make_table(spark, path, commits=5, files=1, properties=settings)
    delta.age(spark, path, DAYS)


def lake_of(spark: SparkSession, path: Path) -> Lake:
    return Lake(spark, path.parent.parent)


def spoil_paimon(spark: SparkSession, path: Path) -> None:
    lake_of(spark, path).create(path.name)
    lake_of(spark, path).append(path.name, 0, 200, files=12)


def outdate_paimon(spark: SparkSession, path: Path) -> None:
    lake_of(spark, path).create(path.name)
    writer = Writer(spark, path)
    for number in range(8):
        writer.append([number])
    paimon.age(path, DAYS, but=2)


def lose_paimon_files(path: Path) -> None:
    paimon.age(path, DAYS)
    lose_files(path, "bucket-0/*.parquet")


def date_paimon(spark: SparkSession, path: Path) -> None:
    lake = lake_of(spark, path)
    lake.create(path.name, partitioned=True)
    days = ["2024-01-01", "2024-01-02", "2024-01-03", "2099-01-01", "no day"]
    rows = ", ".join(f"({number}, {number}, '{day}', 'note')" for number, day in enumerate(days * 2))
    lake.sql(f"INSERT INTO {{shop}}.`{path.name}` VALUES {rows}")


def young_paimon_facts(spark: SparkSession, path: Path) -> object:
    """Old partitions are dropped on purpose; these are not."""
    return paimon.facts(spark, path, where="p NOT LIKE '2024%'")


def tag_paimon(spark: SparkSession, path: Path) -> None:
    lake = lake_of(spark, path)
    lake.create(path.name)
    for number, retained in enumerate(["", ", time_retained => '1 d'", ", time_retained => '2 d'"]):
        Writer(spark, path).append([number])
        lake.sql(f"CALL lake.sys.create_tag(table => 'shop.{path.name}', tag => 'tag {number}'{retained})")
    paimon.age_tags(path, DAYS)


def index_lance(_: SparkSession, path: Path) -> None:
    lance_tables.make_vectors(path)
    lance_tables.append_vectors(path, 1000, 100)


def spoil_lance(_: SparkSession, path: Path) -> None:
    lance_tables.make_table(path, fragments=12)
    lance_tables.delete(path, "id % 9 = 0")


def pack_lance(path: Path) -> None:
    lance.dataset(str(path)).optimize.compact_files()
    lance_tables.make_older(path, timedelta(days=20), up_to=lance_tables.latest(path) - 2)


def lance_facts(_: SparkSession, path: Path) -> object:
    return lance_tables.facts(path)


def log_hudi(spark: SparkSession, path: Path) -> None:
    hudi.make_table(spark, path, table_type=hudi.MERGE_ON_READ, commits=3, options=LOCKING)


def rewrite_hudi(spark: SparkSession, path: Path) -> None:
    options = {**LOCKING, "hoodie.metadata.enable": "false"}
    hudi.make_table(spark, path, table_type=hudi.COPY_ON_WRITE, commits=4, rows=4, options=options)


def commit_hudi(spark: SparkSession, path: Path) -> None:
    options = {**LOCKING, "hoodie.metadata.enable": "false"}
    hudi.make_table(spark, path, table_type=hudi.COPY_ON_WRITE, commits=6, rows=4, options=options)


def fail_hudi(spark: SparkSession, path: Path) -> None:
    """One commit, and a write that was given up after it had written files."""
    options = {**LOCKING, "hoodie.metadata.enable": "false"}
    hudi.upsert(spark, path, number=1, table_type=hudi.COPY_ON_WRITE, rows=4, options=options)
    hudi_failures.fail_to_write(spark, path, number=2, table_type=hudi.COPY_ON_WRITE, options=options)


def outdate_hudi(spark: SparkSession, path: Path) -> None:
    """Of four partitions, ``a`` is old."""
    options = {**LOCKING, "hoodie.metadata.enable": "false"}
    hudi.upsert_partitions(spark, path, ("a", "b", "c", "d"), number=1, options=options)
    hudi.make_older(path, 4 * DAYS)
    hudi.upsert_partitions(spark, path, ("b", "c", "d"), number=2, options=options)


def kept_partitions(spark: SparkSession, path: Path) -> object:
    return {name: value for name, value in hudi.values(spark, path).items() if name != "a"}


def hudi_need(*actions: str, spoil: Callable[[SparkSession, Path], object], **properties: str) -> Need:
    values = {"scheduling": "service", "properties": {**SERVICE, **settings(**properties)["properties"]}}
    return Need(format="hudi", actions=actions, spoil=spoil, facts=hudi.rows, values=values)


def failed_writes_need() -> Need:
    need = hudi_need("rollback-failed-writes", spoil=fail_hudi)
    values = {**need.values, "properties": {**need.values["properties"], **LOCKING}}
    return replace(need, values=values, further=hudi_failures.age)


def iceberg_need(*actions: str, spoil: Callable[[iceberg.Warehouse, Path], object], **properties: str) -> Need:
    values = settings(**properties)
    return Need(format="iceberg", actions=actions, spoil=icebergs(spoil), facts=iceberg_facts, values=values)


def delta_need(action: str, spoil: Callable[[SparkSession, Path], object], **properties: str) -> Need:
    return Need(format="delta", actions=[action], spoil=spoil, facts=delta.facts, values=settings(**properties))


def paimon_need(*actions: str, spoil: Callable[[SparkSession, Path], object], **values: Any) -> Need:
    return Need(format="paimon", actions=actions, spoil=spoil, facts=paimon.facts, **values)


def lance_need(*actions: str, spoil: Callable[[SparkSession, Path], object] = spoil_lance, **values: Any) -> Need:
    return Need(format="lance", actions=actions, spoil=spoil, facts=lance_facts, **values)


AGED = settings(paimon__expire_partitions__older_than="30d")
OLD_ROWS = {"iceberg__expire_data__column": "day", "iceberg__expire_data__max_age": "30d"}
OLD_DELTA_ROWS = {"delta__expire_data__column": "day", "delta__expire_data__max_age": "30d"}
FEW_FILES = {"delta__optimize__min_files": "2"}
FEW_VECTORS = {"delta__purge__min_files": "2"}
FEW_SNAPSHOTS = settings(paimon__expire_snapshots__retain_last="2", paimon__expire_snapshots__at_least="3")
ORDERED = {"delta__z_order__columns": "id, p", "delta__z_order__min_bytes": "1"}
INDEXED = {"hudi__indexing__indexes": "bloom_filters", "hudi__indexing__writers_maintain": "true"}
# Every action of every format.
NEEDS = (
    hudi_need("compaction", spoil=log_hudi),
    hudi_need("clustering", spoil=rewrite_hudi),
    hudi_need("clean", spoil=rewrite_hudi),
    hudi_need("archive", spoil=commit_hudi),
    failed_writes_need(),
    hudi_need("log-compaction", spoil=log_hudi),
    hudi_need("indexing", spoil=log_hudi, **INDEXED),
    replace(
        hudi_need("partition-ttl", spoil=outdate_hudi, hudi__partition_ttl__retain="30d"), facts=kept_partitions
    ),
    iceberg_need("rewrite-data", spoil=write_small_files),
    iceberg_need(
        "rewrite-position-deletes", spoil=delete_now_and_then,
        iceberg__rewrite_position_deletes__min_input_files="2",
    ),
    replace(
        iceberg_need(
            "rewrite-manifests", "expire-snapshots", spoil=append_now_and_then,
            iceberg__rewrite_manifests__min_manifests="4",
        ),
        further=outdate_iceberg,
    ),
    replace(iceberg_need("remove-orphans", spoil=write_files), further=lose_iceberg_files),
    iceberg_need("compute-statistics", "compute-partition-statistics", spoil=append_a_little),
    replace(iceberg_need("expire-data", spoil=date_iceberg, **OLD_ROWS), facts=young_iceberg_facts),
    delta_need("optimize", spoil_delta, **FEW_FILES),
    delta_need("z-order", spoil_delta, **ORDERED),
    delta_need("vacuum", outdate_delta),
    delta_need("purge", spoil_delta, **FEW_VECTORS),
    delta_need("checkpoint", spoil_delta, delta__checkpoint__commits="3"),
    delta_need("clean-log", lengthen_log, delta__clean_log__min_files="5"),
    replace(delta_need("expire-data", date_delta, **OLD_DELTA_ROWS), facts=young_delta_facts),
    paimon_need("compact", spoil=spoil_paimon),
    paimon_need("expire-snapshots", spoil=outdate_paimon, values=FEW_SNAPSHOTS),
    paimon_need("remove-orphans", spoil=spoil_paimon, further=lose_paimon_files),
    replace(
        paimon_need("expire-partitions", spoil=date_paimon, values=AGED),
        facts=young_paimon_facts,
    ),
    paimon_need("expire-tags", spoil=tag_paimon),
    lance_need("compact"),
    lance_need("optimize-indices", spoil=index_lance),
    lance_need("clean-versions", further=pack_lance),
)  # fmt: skip
