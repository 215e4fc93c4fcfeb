# SPDX-License-Identifier: Apache-2.0
"""The tables of the demo: what their writers do to them, how they are registered, and what must happen to them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakehand.demo.lake import DATABASE, Lake
from lakehand.writer import COPY_ON_WRITE, MERGE_ON_READ, file_lock, hudi_options

APPENDS, FILES, ROWS = 2, 50, 15_000
INSERTS, PARTS = 3, 8  # into orders; each part of an insert writes a file to each of two cities
# What is damaged first is repaired first: begin with the quickest, and end with others that nothing has to wait for.
ORDER = ("images", "clicks", "trips", "orders", "payments", "stock")
# A metadata table with the file listing only: enough for tables of this size.
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCommit:
    """One commit: rows first, first + 1, ... with the values of a batch; or a delete."""

    operation: str
    first: int = 0
    rows: int = 0
    batch: int = 0
    parts: int = 2  # written in parallel: one file each, or one per city where cities are partitions
    where: str = ""  # the condition of a delete

    def __str__(self) -> str:
        if self.where:
            return f"{self.operation} where {self.where}"
        return f"{self.operation} of {self.rows} rows in {self.parts} parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTable:
    name: str
    format: str
    damage: str  # what its writer does to it, in a sentence
    location: str
    database: str = ""  # in a catalog
    options: Mapping[str, str] = field(default_factory=dict)
    registration: Mapping[str, Any]
    history: tuple[DemoCommit, ...]  # before Lakehand starts to work
    later: tuple[
        DemoCommit, ...
    ] = ()  # while Lakehand works; writes the same values again, so that the rows stay equal
    first: frozenset[str]  # actions that must succeed before the writer continues
    expected: frozenset[str]  # actions that must have succeeded in the end
    notifies: bool = False  # its writer reports every commit; other tables are probed
    # Says that nobody else writes, where two commits at once are not safe: then the writer and Lakehand take turns.
    only_writer: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} ({self.format})"


DELETE = DemoCommit(operation="delete", where="id % 50 = 7")


def demo_tables(formats: Collection[str], *, url: str, lake: Lake) -> list[DemoTable]:
    # Lakehand plans for orders under its writer's lock, and Hudi's lock in a folder is none on an object store.
    of_hudi = [trips(url, lake.at("trips")), *([] if lake.s3 else [orders(url, lake)])]
    found = [table for table in (*of_hudi, *silent_tables(lake)) if table.format in formats]
    found.sort(key=lambda table: ORDER.index(table.name))
    return [taking_turns(table) for table in found] if lake.s3 else found


def taking_turns(table: DemoTable) -> DemoTable:
    """In S3 two commits at once are safe only for Lance, and for Iceberg in a catalog."""
    if table.format in ("iceberg", "lance"):
        return table
    return replace(table, only_writer={f"{table.format}.only-writer": "true"})


def silent_tables(lake: Lake) -> list[DemoTable]:
    """Tables whose writers notify nobody."""
    appends = tuple(
        DemoCommit(operation="append", first=n * ROWS, rows=ROWS, batch=n, parts=FILES) for n in range(APPENDS)
    )
    deleted, many = (*appends, DELETE), f"{APPENDS * FILES} small"
    clicks = {"format-version": "2", "write.delete.mode": "merge-on-read", "write.distribution-mode": "none"}
    payments = {"delta.enableDeletionVectors": "true"}
    stock = {"bucket": "-1", "write-only": "true"}
    leaves = f"{many} files, then a delete that leaves"
    fragments = f"{many} fragments, then a delete that leaves deletion files; written with pylance"
    inside = f"{DATABASE}/" if lake.catalogs else ""  # a folder as Iceberg's catalog has no databases here
    rows: list[tuple[str, str, str, str, tuple[DemoCommit, ...], dict[str, str]]] = [
        (f"{inside}clicks", "iceberg", "rewrite-data", f"{leaves} position deletes", deleted, clicks),
        ("payments", "delta", "optimize", f"{leaves} deletion vectors", deleted, payments),
        (f"{DATABASE}.db/stock", "paimon", "compact", f"{many} files; its writers do not compact", appends, stock),
        ("images", "lance", "compact", fragments, deleted, lake.lance_options(lake.root)),
    ]
    return [
        DemoTable(
            name=path.rpartition("/")[2], format=kind, damage=f"{damage}. Nobody notifies Lakehand",
            location=lake.at(path), database=path.rpartition("/")[0].removesuffix(".db"), options=options,
            registration={"action_types": [action], **named(kind, lake)}, history=history, first=frozenset({action}),
            expected=frozenset({action}),
        )
        for path, kind, action, damage, history, options in rows
    ]  # fmt: skip


def named(format: str, lake: Lake) -> dict[str, str]:
    """How a table of a catalog is registered."""
    return {"catalog": lake.catalogs[0].name, "db_name": DATABASE} if format == "iceberg" and lake.catalogs else {}


def trips(url: str, location: str) -> DemoTable:
    """Merge on read: the writer plans a compaction after two upserts and leaves running it to Lakehand."""
    options = hudi_options(url, hudi_version="1.2.0", actions=["compaction"], max_delta_commits=2, index="SIMPLE")
    upserts = tuple(DemoCommit(operation="upsert", rows=15_000, batch=batch) for batch in (1, 2))
    return DemoTable(
        name="trips",
        format="hudi",
        damage="merge on read; upserts leave log files that every query merges. Its writer plans a compaction, leaves "
        "running it to Lakehand, and reports every commit",
        location=location,
        options={**table_options("trips", MERGE_ON_READ), **options, **INDEXES, "hoodie.clean.automatic": "false"},
        registration={"action_types": ["compaction"], "scheduling": "writer"},
        history=(DemoCommit(operation="bulk_insert", rows=30_000), *upserts),
        later=(DemoCommit(operation="upsert", rows=10, batch=2),),
        first=frozenset({"compaction"}),
        expected=frozenset({"compaction"}),
        notifies=True,
    )


def orders(url: str, lake: Lake) -> DemoTable:
    """Copy on write: many small files and old versions; Lakehand plans and runs, under the writer's lock."""
    lock = file_lock(lake.at("orders/.hoodie/locks"))
    options = hudi_options(url, hudi_version="1.2.0", actions=["clean"], table_type=COPY_ON_WRITE, lock=lock)
    inserts = (
        DemoCommit(operation="bulk_insert", first=n * 1000, rows=1000, batch=n, parts=PARTS) for n in range(INSERTS)
    )
    again = DemoCommit(operation="upsert", rows=10, batch=INSERTS)
    return DemoTable(
        name="orders",
        format="hudi",
        damage="copy on write; inserts leave small files, updates old versions. Lakehand plans clustering and clean "
        "itself, under the writer's lock. The writer reports every commit",
        location=lake.at("orders"),
        options={
            **table_options("orders", COPY_ON_WRITE),
            **options,
            "hoodie.bulkinsert.shuffle.parallelism": str(PARTS),
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.index.bloom.num_entries": "1000",
            "hoodie.simple.index.parallelism": "2",
            "hoodie.metadata.enable": "false",
        },
        registration={"action_types": ["clustering", "clean"], "scheduling": "service", "properties": thresholds(lock)},
        history=(*inserts, DemoCommit(operation="upsert", rows=200, batch=INSERTS)),
        later=(again, again),
        first=frozenset({"clustering"}),
        expected=frozenset({"clustering", "clean"}),
        notifies=True,
    )


def thresholds(lock: Mapping[str, str]) -> dict[str, str]:
    sooner = {"hudi.clustering.commits": "4", "hudi.clean.commits": "7", "hudi.clean.retain-commits": "2"}
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
