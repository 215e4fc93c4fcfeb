# SPDX-License-Identifier: Apache-2.0
"""Logs of Delta tables without data, written as their writers write them: enough for all that is decided from logs."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import Action, Format, Skip, TableProcess, TableReference, TableSpec
from lakehand.testing.harness import PluginHarness

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
MB = 1024 * 1024
Json = dict[str, Any]


def at(days_ago: float) -> int:
    """So many days before noon, in milliseconds."""
    return int((NOON - timedelta(days=days_ago)).timestamp() * 1000)


def protocol(reader: int = 1, writer: int = 2, features: Sequence[str] = ()) -> Json:
    lists = {"readerFeatures": list(features), "writerFeatures": list(features)} if features else {}
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}


def metadata(configuration: Mapping[str, str] | None = None, *, partitions: Mapping[str, str] | None = None) -> Json:
    """Keys of the configuration without their ``delta.``."""
    types = {"id": "long", "v": "long", **(partitions or {})}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return {
        "metaData": {
            "id": "8f2f", "format": {"provider": "parquet", "options": {}}, "partitionColumns": list(partitions or ()),
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "configuration": {f"delta.{key}": value for key, value in (configuration or {}).items()},
        }
    }  # fmt: skip


def add(
    name: str,
    size: int,
    *,
    days_ago: float = 1,
    deleted: int | None = None,
    rows: int = 1000,
    values: Mapping[str, str] | None = None,
) -> Json:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 34, "cardinality": deleted}
    return {
        "add": {
            "path": name, "size": size, "partitionValues": values or {}, "modificationTime": at(days_ago),
            "dataChange": True, "stats": json.dumps({"numRecords": rows}),
            **({"deletionVector": vector} if deleted is not None else {}),
        }
    }  # fmt: skip


def remove(name: str, size: int = MB, *, days_ago: float) -> Json:
    return {"remove": {"path": name, "deletionTimestamp": at(days_ago), "dataChange": False, "size": size}}


def adds(
    count: int, size: int, *, prefix: str = "part", days_ago: float = 1, values: Mapping[str, str] | None = None
) -> list[Json]:
    return [add(f"{prefix}-{number}.parquet", size, days_ago=days_ago, values=values) for number in range(count)]


class LogTable:
    """A table that is nothing but its log."""

    def __init__(
        self,
        path: Path,
        first: Sequence[Json] = (),
        *,
        days_ago: float = 1,
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.version = -1
        (path / "_delta_log").mkdir(parents=True)
        self.commit(protocol(), metadata(configuration), *first, days_ago=days_ago)

    def commit(self, *actions: Json, operation: str = "WRITE", days_ago: float = 1, **info: Any) -> None:
        header = {"commitInfo": {"timestamp": at(days_ago), "operation": operation, "operationParameters": {}, **info}}
        self.version += 1
        self.write(self.file(self.version), header, *actions, days_ago=days_ago)

    def write(self, file: Path, *actions: Json, days_ago: float) -> None:
        file.write_text("".join(json.dumps(one) + "\n" for one in actions))
        os.utime(file, (at(days_ago) / 1000, at(days_ago) / 1000))

    def checkpoint(self, *, days_ago: float = 1, hint: int | None = None) -> None:
        """Of the newest version, as a V2 checkpoint without sidecars; ``hint``: the version that readers are told."""
        kept = [dict(one) for one in self.snapshot().log.commit(0) if "commitInfo" not in one]
        name = f"{self.version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
        about = {"checkpointMetadata": {"version": self.version}}
        self.write(self.path / "_delta_log" / name, about, *kept, days_ago=days_ago)
        last = {"version": self.version if hint is None else hint, "size": len(kept)}
        (self.path / "_delta_log" / "_last_checkpoint").write_text(json.dumps(last))

    def file(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020d}.json"

    @property
    def reference(self) -> TableReference:
        return TableReference(location=str(self.path))

    def snapshot(self) -> DeltaSnapshot:
        return DeltaFormat().inspect(self.reference)

    def harness(self, **settings: str) -> PluginHarness:
        """Settings without their ``delta.``, with ``__`` for dots and ``_`` for hyphens."""
        keys = {f"delta.{k.replace('__', '.').replace('_', '-')}": v for k, v in settings.items()}
        spec = TableSpec(
            location=str(self.path), format=Format("delta"), db_name="shop", table_name="payments", properties=keys,
            action_types=frozenset(map(Action, ("optimize", "z-order", "vacuum", "purge", "checkpoint", "clean-log"))),
        )  # fmt: skip
        return PluginHarness(factory=DeltaProcessFactory(), format=DeltaFormat(), spec=spec, now=lambda: NOON)

    def wanted(self, action: str, **settings: str) -> TableProcess:
        answer = self.harness(**settings).wants(action)
        assert isinstance(answer, TableProcess), answer
        return answer

    def skipped(self, action: str, **settings: str) -> str:
        answer = self.harness(**settings).wants(action)
        assert isinstance(answer, Skip), answer
        return answer.reason
