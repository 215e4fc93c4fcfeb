# SPDX-License-Identifier: Apache-2.0
"""Iceberg tables without Spark: snapshots put together by hand, and real tables that pyiceberg writes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.formats.iceberg.manifests import DATA, POSITION_DELETES, ContentFile, Manifest, ManifestCache
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.formats.iceberg.table import ICEBERG
from lakehand.spi import DetachedRuntime, Operation, TableReference, TableSpec
from lakehand.storage import Storages
from lakehand.testing import PluginHarness

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
KB, MB = 1024, 1024 * 1024


def ago(**span: float) -> int:
    return int((NOON - timedelta(**span)).timestamp() * 1000)


def commit(number: int, at: int, *, parent: int | None = None, **summary: Any) -> dict[str, Any]:
    values = {key.replace("__", ".").replace("_", "-"): value for key, value in summary.items()}
    before = {"parent-snapshot-id": parent} if parent is not None else {}
    return {"snapshot-id": number, "timestamp-ms": at, "summary": {"operation": "append", **values}, **before}


def line(*ages: float, **summaries: Mapping[str, str]) -> list[dict[str, Any]]:
    """Snapshots 1, 2, 3, ... of one branch, so many days old; summaries by ``s`` and the number."""
    return [
        commit(number, ago(days=age), parent=number - 1 or None, **summaries.get(f"s{number}", {}))
        for number, age in enumerate(ages, 1)
    ]


def branch(head: int, **more: int) -> dict[str, Any]:
    return {"snapshot-id": head, "type": "branch", **{key.replace("_", "-"): value for key, value in more.items()}}


def tag(head: int) -> dict[str, Any]:
    return {"snapshot-id": head, "type": "tag"}


def data(size: int, *, partition: str = "a", name: str = "", sequence: int = 1, rows: int = 100) -> ContentFile:
    path = name or f"/t/data/{partition}/{size}-{sequence}"
    return ContentFile(path, size, rows, (0, partition), sequence, DATA, False, None)


def deletes(
    *, partition: str = "a", about: str | None = None, sequence: int = 2, rows: int = 10, vector: bool = False
) -> ContentFile:
    return ContentFile("/t/d", KB, rows, (0, partition), sequence, POSITION_DELETES, vector, about)


def snapshot(
    *,
    files: Sequence[ContentFile] = (),
    manifests: Sequence[Manifest] = (),
    commits: Sequence[dict[str, Any]] = (),
    refs: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    version: int = 2,
    why_read_only: str = "",
    partitioned: Sequence[tuple[str, str]] = (),
) -> IcebergSnapshot:
    """``partitioned``: the column and the transform of each partition field."""
    head = commits[-1]["snapshot-id"] if commits else None
    document: dict[str, Any] = {
        "format-version": version, "location": "/t", "properties": properties or {}, "snapshots": list(commits),
        "current-snapshot-id": head, "refs": refs if refs is not None else {"main": branch(head)} if head else {},
        **spec_of(partitioned),
    }  # fmt: skip
    made = IcebergSnapshot(
        token="v1", location="/t", metadata=document, metadata_location="/t/metadata/v1.metadata.json",
        why_read_only=why_read_only, storages=Storages({}), cache=ManifestCache(),
    )  # fmt: skip
    vars(made).update(files=files, manifests=manifests)
    return made


def field_name(column: str, transform: str) -> str:
    return column if transform == "identity" else f"{column}_{transform.partition('[')[0]}"


def spec_of(partitioned: Sequence[tuple[str, str]]) -> dict[str, Any]:
    columns = [{"id": number, "name": column} for number, (column, _) in enumerate(partitioned, 1)]
    fields = [
        {"name": field_name(column, kind), "source-id": number, "transform": kind}
        for number, (column, kind) in enumerate(partitioned, 1)
    ]
    schemas = [{"schema-id": 0, "fields": columns}]
    return {
        "schemas": schemas, "current-schema-id": 0, "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": fields}],
    }  # fmt: skip


class MadeRuntime(DetachedRuntime):
    """A runtime over a snapshot that was put together by hand."""

    def __init__(
        self, made: IcebergSnapshot, operations: Sequence[Operation] = (), changed: Sequence[str] = (), /,
        **properties: str,
    ) -> None:  # fmt: skip
        values = {key_of(key): value for key, value in properties.items()}
        spec = TableSpec(location="/t", format=ICEBERG, table_name="t", properties=values)
        super().__init__(spec=spec, format=IcebergFormat(), now=NOON, operations=operations, changed_partitions=changed)
        self._made = made

    def snapshot(self) -> IcebergSnapshot:
        return self._made


def key_of(name: str) -> str:
    """``rewrite_data__target_bytes`` means ``iceberg.rewrite-data.target-bytes``."""
    return "iceberg." + name.replace("__", ".").replace("_", "-")


def small_table(**properties: str) -> IcebergSnapshot:
    """Ten small files in one partition, committed long ago."""
    files = [data(MB, name=f"/t/data/{number}") for number in range(10)]
    return snapshot(files=files, commits=line(30, 20, 10), properties=properties)


@dataclass(kw_only=True)
class WrittenTable:
    """A table in Hadoop layout: pyiceberg writes it, and its metadata is published under numbered names."""

    folder: Path
    make: Callable[[int], Any] = field(default_factory=lambda: rows)  # the rows of a commit, by its number
    table: Any = field(init=False)
    version: int = 0

    def __post_init__(self) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        uri = f"sqlite:///{self.folder.with_suffix('.db')}"
        catalog = SqlCatalog("written", uri=uri, warehouse=str(self.folder.parent))
        catalog.create_namespace("db")
        self.table = catalog.create_table("db.t", schema=self.make(0).schema, location=str(self.folder))
        self.commit()

    def commit(self) -> None:
        self.table.append(self.make(self.version))
        self.publish()

    def publish(self, *, hint: int | None = None) -> None:
        self.version += 1
        metadata = self.folder / "metadata"
        current = Path(self.table.metadata_location.removeprefix("file://"))
        (metadata / f"v{self.version}.metadata.json").write_bytes(current.read_bytes())
        (metadata / "version-hint.text").write_text(str(hint or self.version))

    @property
    def reference(self) -> TableReference:
        return TableReference(location=str(self.folder))

    def harness(self, **properties: str) -> PluginHarness:
        values = {key_of(key): value for key, value in properties.items()}
        spec = TableSpec(location=str(self.folder), format=ICEBERG, table_name="t", properties=values)
        return PluginHarness(factory=IcebergProcessFactory(), format=IcebergFormat(), spec=spec)

    def document(self) -> dict[str, Any]:
        file = self.folder / "metadata" / f"v{self.version}.metadata.json"
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def rows(start: int) -> Any:
    import pyarrow as pa

    return pa.table({"id": pa.array(range(start, start + 5), pa.int64()), "note": ["x"] * 5})
