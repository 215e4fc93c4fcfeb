# SPDX-License-Identifier: Apache-2.0
"""For each format and action a small table that needs it, as it can be had in a bucket.

Delta, Hudi, Paimon and Lance name files relative to the table: such tables are made on disk and copied. Iceberg names
whole paths: its tables are made in the bucket, in a catalog.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests import delta_tables as delta
from tests import hudi_tables as hudi
from tests import iceberg_tables as iceberg
from tests import lance_tables
from tests import paimon_tables as paimon
from tests.e2e import every_action as local
from tests.e2e.every_action import DAYS, Need, settings
from tests.formats.hudi.runtime import FILE_LOCK
from tests.iceberg_tables import Warehouse
from tests.paimon_tables import Writer

SCHEMA = "central.shop"  # of the Iceberg tables
LOST = 3


def spoil_small_delta(spark: SparkSession, path: Path) -> None:
    delta.make_table(spark, path, commits=2, files=12)
    delta.delete(spark, path, "id % 10 = 3")


def outdate_small_delta(spark: SparkSession, path: Path) -> None:
    delta.make_table(spark, path, commits=1, files=4)
    spark.newSession().sql(f"OPTIMIZE {delta.quoted(path)}").collect()
    delta.age(spark, path, DAYS)


def leave_hudi_plan(spark: SparkSession, path: Path) -> None:
    """The plan of a writer, who has no lock."""
    hudi.make_table(spark, path, commits=3, options=hudi.scheduling_compaction(2))


def spoil_small_paimon(spark: SparkSession, path: Path) -> None:
    local.lake_of(spark, path).create(path.name)
    local.lake_of(spark, path).append(path.name, 0, 200, files=12)


def outdate_small_paimon(spark: SparkSession, path: Path) -> None:
    local.lake_of(spark, path).create(path.name)
    writer = Writer(spark, path)
    for number in range(8):
        writer.append([number])
    paimon.age(path, DAYS, but=2)


def lose_paimon_files(path: Path) -> None:
    paimon.age(path, DAYS)
    local.lose_files(path, "bucket-0/*.parquet", count=LOST)


def spoil_small_lance(_: SparkSession, path: Path) -> None:
    lance_tables.make_table(path, fragments=12)
    lance_tables.delete(path, "id % 9 = 0")


def delete_now_and_then(warehouse: Warehouse, table: Path) -> None:
    warehouse.create(table, partitioned=False, write_delete_granularity="partition")
    warehouse.append(table, files=3, rows=60)
    for number in range(3):
        warehouse.delete(table, f"id % 10 = {number}")


def append_now_and_then(warehouse: Warehouse, table: Path) -> None:
    iceberg.many_snapshots(warehouse, table, count=5)


def write_files(warehouse: Warehouse, table: Path) -> None:
    warehouse.create(table)
    warehouse.append(table, files=8, rows=160)


def write_small_files(warehouse: Warehouse, table: Path) -> None:
    iceberg.small_files(warehouse, table, files=6)


def hudi_need(action: str, spoil: Callable[[SparkSession, Path], object], **properties: str) -> Need:
    return without_lock(local.hudi_need(action, spoil=spoil, **properties))


def without_lock(need: Need) -> Need:
    """A file lock is worth nothing in a bucket."""
    properties = {key: value for key, value in need.values["properties"].items() if key not in FILE_LOCK}
    return replace(need, values={**need.values, "properties": properties})


def iceberg_need(*actions: str, spoil: Callable[[Warehouse, Path], object], **properties: str) -> Need:
    """Made and read by a session that knows the catalog."""
    return replace(
        local.iceberg_need(*actions, spoil=spoil, **properties),
        spoil=lambda session, path: spoil(Warehouse(session, SCHEMA, path.parent), path),
        facts=lambda session, path: Warehouse(session, SCHEMA, path.parent).checksum(path),
    )


INDEXED = {"hudi__indexing__indexes": "bloom_filters", "hudi__indexing__writers_maintain": "true"}
FEW_SNAPSHOTS = settings(paimon__expire_snapshots__retain_last="2", paimon__expire_snapshots__at_least="3")
COPIED = (
    replace(hudi_need("compaction", leave_hudi_plan), values={}),
    hudi_need("clustering", local.rewrite_hudi),
    hudi_need("clean", local.rewrite_hudi),
    hudi_need("archive", local.commit_hudi),
    without_lock(local.failed_writes_need()),
    hudi_need("log-compaction", local.log_hudi),
    hudi_need("indexing", local.log_hudi, **INDEXED),
    replace(
        hudi_need("partition-ttl", local.outdate_hudi, hudi__partition_ttl__retain="30d"), facts=local.kept_partitions
    ),
    local.delta_need("optimize", spoil_small_delta),
    local.delta_need("z-order", spoil_small_delta, delta__z_order__columns="id, p", delta__z_order__min_bytes="1"),
    local.delta_need("vacuum", outdate_small_delta),
    replace(local.delta_need("vacuum", outdate_small_delta, delta__vacuum__mode="full"), name="delta_full_vacuum"),
    local.delta_need("purge", spoil_small_delta),
    local.delta_need("checkpoint", spoil_small_delta, delta__checkpoint__commits="3"),
    local.delta_need("clean-log", local.lengthen_log, delta__clean_log__min_files="5"),
    local.paimon_need("compact", spoil=spoil_small_paimon),
    local.paimon_need("expire-snapshots", spoil=outdate_small_paimon, values=FEW_SNAPSHOTS),
    local.paimon_need("remove-orphans", spoil=spoil_small_paimon, further=lose_paimon_files),
    replace(
        local.paimon_need("expire-partitions", spoil=local.date_paimon, values=local.AGED),
        facts=local.young_paimon_facts,
    ),
    local.paimon_need("expire-tags", spoil=local.tag_paimon),
    local.lance_need("compact", spoil=spoil_small_lance),
    local.lance_need("optimize-indices", spoil=local.index_lance),
    local.lance_need("clean-versions", spoil=spoil_small_lance, further=local.pack_lance),
)
IN_CATALOG = (
    iceberg_need("rewrite-data", spoil=write_small_files),
    iceberg_need(
        "rewrite-position-deletes", spoil=delete_now_and_then,
        iceberg__rewrite_position_deletes__min_input_files="2",
    ),
    iceberg_need(
        "rewrite-manifests", "expire-snapshots", spoil=append_now_and_then,
        iceberg__rewrite_manifests__min_manifests="4",
    ),
    iceberg_need("remove-orphans", spoil=write_files),
    iceberg_need("compute-statistics", "compute-partition-statistics", spoil=local.append_a_little),
)  # fmt: skip
NEEDS = (*COPIED, *IN_CATALOG)
# What the rule refuses in a bucket until somebody says that nobody else writes.
REFUSED = frozenset(
    {(need.format, action) for need in COPIED if need.format == "hudi" for action in need.actions}
    | {("delta", action) for action in ("optimize", "z-order", "purge", "vacuum")}
    | {("paimon", action) for action in ("compact", "expire-snapshots", "expire-partitions", "expire-tags")}
)
