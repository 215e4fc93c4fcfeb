# SPDX-License-Identifier: Apache-2.0
"""Thousands of small generated tables of three formats: healthy metadata without data, and a commit that spoils one."""

import json
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.idle_tables import INSTANT, make_tables

MB = 1024 * 1024
FORMATS = ("hudi", "delta", "iceberg")
SMALL_FILES = 60
PLAN = "20240501130000000.compaction.requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTable:
    format: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class MixedLake:
    """All tables of one bench. Iceberg names files absolutely, so that the spoiled tables can share their manifests."""

    folder: Path
    template: dict[str, Any]  # the metadata of a real Iceberg table with many small files

    @classmethod
    def at(cls, folder: Path) -> "MixedLake":
        return cls(folder=folder, template=spoiled_iceberg(folder / "shared"))

    def make(self, count: int) -> list[MadeTable]:
        hudi = make_tables(self.folder / "hudi", count // len(FORMATS) + count % len(FORMATS))
        made = [MadeTable(format="hudi", path=path) for path in hudi]
        for number, name in zip(range(count - len(hudi)), cycle(("delta", "iceberg")), strict=False):
            path = self.folder / name / f"d{number // 100:03d}" / f"{name}_{number:05d}"
            self.create(MadeTable(format=name, path=path))
            made.append(MadeTable(format=name, path=path))
        return made

    def create(self, table: MadeTable) -> None:
        if table.format == "delta":
            (table.path / "_delta_log").mkdir(parents=True)
            delta_commit(table.path, 0, [protocol(), metadata(table.path.name), *added(0, 1, 200 * MB)])
        else:
            (table.path / "metadata").mkdir(parents=True)
            self.iceberg_commit(table.path, 1, with_snapshot=False)

    def spoil(self, table: MadeTable) -> None:
        """One more commit, after which the table needs work."""
        if table.format == "hudi":
            (table.path / ".hoodie" / "timeline" / PLAN).write_bytes(b"")
        elif table.format == "delta":
            delta_commit(table.path, 1, added(1, SMALL_FILES, MB))
        else:
            self.iceberg_commit(table.path, 2, with_snapshot=True)

    def iceberg_commit(self, path: Path, version: int, *, with_snapshot: bool) -> None:
        document = {**self.template, "location": str(path)}
        if not with_snapshot:
            document |= {"snapshots": [], "snapshot-log": [], "refs": {}, "current-snapshot-id": -1}
        (path / "metadata" / f"v{version}.metadata.json").write_text(json.dumps(document))
        (path / "metadata" / "version-hint.text").write_text(str(version))


def spoiled_iceberg(folder: Path) -> dict[str, Any]:
    """A real table, written with pyiceberg: many appends of one small file each."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=str(folder))
    catalog.create_namespace("bench")
    rows = pa.table({"id": [1, 2, 3]})
    table = catalog.create_table("bench.template", schema=rows.schema)
    for _ in range(SMALL_FILES):
        table.append(rows)
    document: dict[str, Any] = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    catalog.close()
    newest = document["snapshots"][-1]
    newest.pop("parent-snapshot-id", None)
    return {**document, "snapshots": [newest], "snapshot-log": [], "metadata-log": []}


def delta_commit(path: Path, version: int, actions: list[dict[str, Any]]) -> None:
    info = {"commitInfo": {"timestamp": 1714564800000 + version, "operation": "WRITE", "operationParameters": {}}}
    lines = "".join(json.dumps(action) + "\n" for action in [info, *actions])
    (path / "_delta_log" / f"{version:020d}.json").write_text(lines)


def protocol() -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def metadata(name: str) -> dict[str, Any]:
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    return {
        "metaData": {
            "id": f"{name}-{INSTANT}", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
            "configuration": {}, "createdTime": 1714564800000,
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
        }
    }  # fmt: skip


def added(version: int, count: int, size: int) -> list[dict[str, Any]]:
    return [
        {
            "add": {
                "path": f"part-{version}-{number}.parquet", "partitionValues": {}, "size": size, "dataChange": True,
                "modificationTime": 1714564800000, "stats": '{"numRecords": 1000}',
            }
        }
        for number in range(count)
    ]  # fmt: skip
