# SPDX-License-Identifier: Apache-2.0
"""For each format and action a small table that needs it, as it can be had in a bucket.

Delta, Hudi, Paimon and Lance name files relative to the table: such tables are made on disk and copied. Iceberg names
whole paths: its tables are made in the bucket, in a catalog.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests import hudi_tables as hudi
from tests.e2e import every_action as local
from tests.e2e.every_action import Need
from tests.formats.hudi.runtime import FILE_LOCK
from tests.iceberg_tables import Warehouse

SCHEMA = "central.shop"  # of the Iceberg tables


def leave_hudi_plan(spark: SparkSession, path: Path) -> None:
    """The plan of a writer, who has no lock."""
    options = {**hudi.scheduling_compaction(2), "hoodie.metadata.enable": "false"}
    hudi.make_table(spark, path, commits=3, rows=4, options=options)


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


COPIED = (
    replace(hudi_need("compaction", leave_hudi_plan), values={}),
    hudi_need("clustering", local.rewrite_hudi),
    hudi_need("clean", local.rewrite_hudi),
    hudi_need("archive", local.commit_hudi),
    without_lock(local.failed_writes_need()),
    hudi_need("log-compaction", local.log_hudi),
    hudi_need("indexing", local.log_hudi, **local.INDEXED),
    replace(
        hudi_need("partition-ttl", local.outdate_hudi, hudi__partition_ttl__retain="30d"), facts=local.kept_partitions
    ),
    replace(local.delta_need("vacuum", local.outdate_delta, delta__vacuum__mode="full"), name="delta_full_vacuum"),
    *(one for one in local.NEEDS if one.format in ("delta", "paimon", "lance")),
)
IN_CATALOG = (
    iceberg_need("rewrite-data", spoil=local.write_small_files),
    iceberg_need(
        "rewrite-position-deletes", spoil=local.delete_now_and_then,
        iceberg__rewrite_position_deletes__min_input_files="2",
    ),
    iceberg_need(
        "rewrite-manifests", "expire-snapshots", spoil=local.append_now_and_then,
        iceberg__rewrite_manifests__min_manifests="4",
    ),
    iceberg_need("remove-orphans", spoil=local.write_files),
    iceberg_need("compute-statistics", "compute-partition-statistics", spoil=local.append_a_little),
    replace(
        iceberg_need("expire-data", spoil=local.date_iceberg, **local.OLD_ROWS),
        facts=lambda session, path: local.young_rows(Warehouse(session, SCHEMA, path.parent), path),
    ),
)  # fmt: skip
NEEDS = (*COPIED, *IN_CATALOG)
# What the rule refuses in a bucket until somebody says that nobody else writes.
REFUSED = frozenset(
    {(need.format, action) for need in COPIED if need.format == "hudi" for action in need.actions}
    | {("delta", action) for action in ("optimize", "z-order", "purge", "vacuum", "expire-data")}
    | {("paimon", action) for action in ("compact", "expire-snapshots", "expire-partitions", "expire-tags")}
)
