# SPDX-License-Identifier: Apache-2.0
"""The two tables of the demo: what their writer does to them, and how they are registered."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehand.writer import COPY_ON_WRITE, MERGE_ON_READ, file_lock, hudi_options

# A metadata table with the list of files alone: enough for two tables of this size.
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    operation: str
    first: int
    rows: int
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTable:
    name: str
    table_type: str
    location: Path
    options: Mapping[str, str]
    registration: Mapping[str, Any]
    history: tuple[Commit, ...]  # before Lakehand is let at it
    later: tuple[Commit, ...]  # while Lakehand looks after it; the same values once more, so that all rows stay equal
    first: frozenset[str]  # the actions that must have succeeded before the writer goes on
    expected: frozenset[str]  # and those in the end


def demo_tables(url: str, lake: Path, locks: Path) -> tuple[DemoTable, DemoTable]:
    return trips(url, lake / "trips"), orders(url, lake / "orders", file_lock(str(locks / "orders")))


def trips(url: str, location: Path) -> DemoTable:
    """Merge on read: the writer plans a compaction after four upserts and leaves it to Lakehand."""
    options = hudi_options(url, hudi_version="1.2.0", actions=["compaction"], max_delta_commits=4)
    upserts = tuple(Commit(operation="upsert", first=0, rows=15_000, batch=batch) for batch in (1, 2, 3, 4))
    return DemoTable(
        name="trips",
        table_type=MERGE_ON_READ,
        location=location,
        options={**table_options("trips", MERGE_ON_READ), **options, **INDEXES, "hoodie.clean.automatic": "false"},
        registration={"action_types": ["compaction"], "scheduling": "writer"},
        history=(Commit(operation="bulk_insert", first=0, rows=30_000, batch=0), *upserts),
        later=(Commit(operation="upsert", first=0, rows=10, batch=4),),
        first=frozenset({"compaction"}),
        expected=frozenset({"compaction"}),
    )


def orders(url: str, location: Path, lock: Mapping[str, str]) -> DemoTable:
    """Copy on write: many small files and old versions; Lakehand plans and runs, under the lock of the writer."""
    options = hudi_options(url, hudi_version="1.2.0", actions=["clean"], table_type=COPY_ON_WRITE, lock=lock)
    inserts = tuple(Commit(operation="insert", first=n * 1000, rows=1000, batch=n) for n in range(5))
    upsert = Commit(operation="upsert", first=0, rows=5000, batch=5)
    again = Commit(operation="upsert", first=0, rows=10, batch=5)
    thresholds = {"hudi.clustering.commits": "6", "hudi.clean.commits": "9", "hudi.clean.retain-commits": "2"}
    return DemoTable(
        name="orders",
        table_type=COPY_ON_WRITE,
        location=location,
        options={
            **table_options("orders", COPY_ON_WRITE),
            **options,
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.metadata.enable": "false",
        },
        registration={
            "action_types": ["clustering", "clean"],
            "scheduling": "service",
            "properties": {**lock, "hoodie.clean.failed.writes.policy": "LAZY", **thresholds},
        },
        history=(*inserts, upsert),
        later=(again, again),
        first=frozenset({"clustering"}),
        expected=frozenset({"clustering", "clean"}),
    )


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
