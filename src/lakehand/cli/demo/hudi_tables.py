# SPDX-License-Identifier: Apache-2.0
"""The two Hudi tables of the demo: one whose writer plans, and one that Lakehand plans for."""

from collections.abc import Mapping
from pathlib import Path

from lakehand.cli.demo.tables import Commit, DemoTable
from lakehand.writer import COPY_ON_WRITE, MERGE_ON_READ, file_lock, hudi_options

# A metadata table with the list of files alone: enough for two tables of this size.
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
PARTS = 5  # of one insert into orders: each leaves a file in each of two cities


def trips(url: str, location: Path) -> DemoTable:
    """Merge on read: the writer plans a compaction after three upserts and leaves it to Lakehand."""
    options = hudi_options(url, hudi_version="1.2.0", actions=["compaction"], max_delta_commits=3)
    upserts = tuple(Commit(operation="upsert", rows=15_000, batch=batch) for batch in (1, 2, 3))
    return DemoTable(
        name="trips",
        format="hudi",
        damage="merge on read; upserts leave log files that every query merges. Its writer plans a compaction, leaves "
        "it to Lakehand, and reports every commit",
        location=location,
        options={**table_options("trips", MERGE_ON_READ), **options, **INDEXES, "hoodie.clean.automatic": "false"},
        registration={"action_types": ["compaction"], "scheduling": "writer"},
        history=(Commit(operation="bulk_insert", rows=30_000), *upserts),
        later=(Commit(operation="upsert", rows=10, batch=3),),
        first=frozenset({"compaction"}),
        expected=frozenset({"compaction"}),
        is_told=True,
    )


def orders(url: str, location: Path, locks: Path) -> DemoTable:
    """Copy on write: many small files and old versions; Lakehand plans and runs, under the lock of the writer."""
    lock = file_lock(str(locks / "orders"))
    options = hudi_options(url, hudi_version="1.2.0", actions=["clean"], table_type=COPY_ON_WRITE, lock=lock)
    inserts = (Commit(operation="bulk_insert", first=n * 1000, rows=1000, batch=n, parts=PARTS) for n in range(5))
    again = Commit(operation="upsert", rows=10, batch=5)
    return DemoTable(
        name="orders",
        format="hudi",
        damage="copy on write; inserts leave small files, updates old versions. Lakehand plans clustering and clean "
        "itself, under the writer's lock. The writer reports every commit",
        location=location,
        options={
            **table_options("orders", COPY_ON_WRITE),
            **options,
            "hoodie.bulkinsert.shuffle.parallelism": str(PARTS),
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.index.bloom.num_entries": "1000",
            "hoodie.simple.index.parallelism": "2",
            "hoodie.metadata.enable": "false",
        },
        registration={
            "action_types": ["clustering", "clean"],
            "scheduling": "service",
            "properties": thresholds(lock),
        },
        history=(*inserts, Commit(operation="upsert", rows=200, batch=5)),
        later=(again, again),
        first=frozenset({"clustering"}),
        expected=frozenset({"clustering", "clean"}),
        is_told=True,
    )


def thresholds(lock: Mapping[str, str]) -> dict[str, str]:
    sooner = {"hudi.clustering.commits": "6", "hudi.clean.commits": "9", "hudi.clean.retain-commits": "2"}
    return {**lock, "hoodie.clean.failed.writes.policy": "LAZY", **sooner}


def table_options(name: str, table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.embed.timeline.server": "false",
    }
