# SPDX-License-Identifier: Apache-2.0
"""Metadata of Paimon tables written by hand, file by file: histories of any age and shape, without Spark."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import fastavro

MB = 1024 * 1024
NOON = datetime(2026, 11, 16, 12, tzinfo=timezone.utc)
COLUMNS = ("id", "v", "p")

LIST_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "meta",
        "fields": [
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_NUM_ADDED_FILES", "type": "long"},
            {"name": "_NUM_DELETED_FILES", "type": "long"},
        ],
    }
)
MANIFEST_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "entry",
        "fields": [
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {
                "name": "_FILE",
                "type": {
                    "type": "record",
                    "name": "file",
                    "fields": [
                        {"name": "_FILE_NAME", "type": "string"},
                        {"name": "_FILE_SIZE", "type": "long"},
                        {"name": "_ROW_COUNT", "type": "long"},
                        {"name": "_LEVEL", "type": "int"},
                        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
                        {"name": "_CREATION_TIME", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    ],
                },
            },
        ],
    }
)


@dataclass(frozen=True)
class File:
    name: str
    size: int = MB
    partition: bytes = b""
    bucket: int = 0
    level: int = 0
    created: datetime = NOON


def partition_of(*values: str | int | None) -> bytes:
    """A partition as manifests have it: texts, whole numbers or nulls."""
    head, tail = (len(values) + 71) // 64 * 8, b""
    nulls, slots = bytearray(head), b""
    for number, value in enumerate(values):
        if value is None:
            nulls[(number + 8) // 8] |= 1 << (number + 8) % 8
            slots += bytes(8)
        elif isinstance(value, int):
            slots += value.to_bytes(8, "little", signed=True)
        elif len(text := value.encode()) < 8:
            slots += text.ljust(7, b"\0") + bytes([0x80 | len(text)])
        else:
            slots += len(text).to_bytes(4, "little") + (head + 8 * len(values) + len(tail)).to_bytes(4, "little")
            tail += text.ljust((len(text) + 7) // 8 * 8, b"\0")
    return len(values).to_bytes(4, "big") + bytes(nulls) + slots + tail


def small(count: int, prefix: str = "data", **more: Any) -> list[File]:
    return [File(f"{prefix}-{number}.parquet", **more) for number in range(count)]


@dataclass
class HandMade:
    """A table in a folder. Its data files are named and do not exist."""

    root: Path
    options: Mapping[str, str] = field(default_factory=lambda: {"write-only": "true"})
    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)  # of columns that are not INT
    manifests: list[dict[str, Any]] = field(default_factory=list)
    latest: int = 0

    def __post_init__(self) -> None:
        for name in ("schema", "snapshot", "manifest"):
            (self.root / name).mkdir(parents=True)
        schema = {
            "version": 3, "id": 0, "fields": [{"name": name, "type": self.types.get(name, "INT")} for name in COLUMNS],
            "partitionKeys": list(self.partition_keys), "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }  # fmt: skip
        (self.root / "schema" / "schema-0").write_text(json.dumps(schema))

    def commit(
        self, added: Sequence[File] = (), deleted: Sequence[File] = (), *, kind: str = "APPEND", user: str = "writer",
        at: datetime = NOON,
    ) -> int:  # fmt: skip
        self.latest += 1
        base = self.list_of(self.manifests)
        manifest = self.manifest_of([*((0, file) for file in added), *((1, file) for file in deleted)])
        meta = {"_FILE_NAME": manifest, "_NUM_ADDED_FILES": len(added), "_NUM_DELETED_FILES": len(deleted)}
        self.manifests.append(meta)
        document = {
            "version": 3, "id": self.latest, "schemaId": 0, "baseManifestList": base,
            "deltaManifestList": self.list_of([meta]), "changelogManifestList": None, "commitUser": user,
            "commitKind": kind, "timeMillis": int(at.timestamp() * 1000), "totalRecordCount": 10,
        }  # fmt: skip
        (self.root / "snapshot" / f"snapshot-{self.latest}").write_text(json.dumps(document))
        return self.latest

    def list_of(self, metas: Sequence[Mapping[str, Any]]) -> str:
        return self.write("manifest-list", LIST_SCHEMA, metas)

    def manifest_of(self, entries: Sequence[tuple[int, File]]) -> str:
        records = [
            {
                "_KIND": kind, "_PARTITION": file.partition, "_BUCKET": file.bucket,
                "_FILE": {
                    "_FILE_NAME": file.name, "_FILE_SIZE": file.size, "_ROW_COUNT": 10, "_LEVEL": file.level,
                    "_EXTRA_FILES": [], "_CREATION_TIME": file.created,
                },
            }
            for kind, file in entries
        ]  # fmt: skip
        return self.write("manifest", MANIFEST_SCHEMA, records)

    def write(self, prefix: str, schema: Any, records: Sequence[Mapping[str, Any]]) -> str:
        name = f"{prefix}-{len(list((self.root / 'manifest').iterdir()))}"
        with (self.root / "manifest" / name).open("wb") as file:
            fastavro.writer(file, schema, records, codec="deflate")
        return name

    def copy(self, number: int, to: str) -> None:
        """A snapshot as a tag or as the first of a branch."""
        target = self.root / to
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((self.root / "snapshot" / f"snapshot-{number}").read_text())
