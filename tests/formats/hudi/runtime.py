# SPDX-License-Identifier: Apache-2.0
"""A table runtime in memory over real timelines, and short ways to build what the decisions take."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId, TableSpec
from lakehand.formats.hudi import HudiFormat
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.spi import Action, DetachedRuntime, Format, Instant, Operation, Scheduling, Status, TableProcess

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
TABLES = Path(__file__).parent / "tables"

# Pending plans of the captured tables.
ORDERS_V9 = Instant("20261115214001845")
EVENTS_V9 = Instant("20261115214138702")
ORDERS_V6 = Instant("20261115214246630")
EVENTS_V6 = Instant("20261115214518499")

FILE_LOCK = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}


class MemoryRuntime(DetachedRuntime):
    def __init__(
        self,
        location: Path,
        *,
        scheduling: Scheduling = Scheduling.WRITER,
        properties: Mapping[str, str] | None = None,
        operators: Mapping[str, str] | None = None,
        operations: Sequence[Operation] = (),
        actions: frozenset[Action] = frozenset({COMPACTION, CLUSTERING, CLEAN}),
    ) -> None:
        spec = TableSpec(
            location=str(location), format=Format("hudi"), table_name=location.name, action_types=actions,
            scheduling=scheduling, properties=properties or {},
        )  # fmt: skip
        super().__init__(spec=spec, format=HudiFormat(), now=NOON, properties=operators, operations=operations)

    def snapshot(self) -> HudiSnapshot:
        snapshot = super().snapshot()
        assert isinstance(snapshot, HudiSnapshot)
        return snapshot


def operation(process: TableProcess, **changes: Any) -> Operation:
    """A stored operation of a process; keyword arguments change it."""
    stored = Operation(
        id=OperationId(7), table=TableId(1), instant=process.instant or Instant(f"20261115120000000-{process.action}"),
        process=process, not_before=NOON, due_at=NOON, created_at=NOON, updated_at=NOON,
    )  # fmt: skip
    return replace(stored, **changes)


def asked_for(action: Action, instant: Instant, **parameters: Any) -> Operation:
    """An operation as the wire stores it: no job, no process instant."""
    return operation(TableProcess(action=action, parameters=parameters), instant=instant, origin="wire")


def ended(action: Action, instant: Instant, status: Status, **changes: Any) -> Operation:
    process = TableProcess(action=action, instant=instant)
    return operation(process, status=status, reason="the reason", **changes)


def copied(name: str, folder: Path) -> Path:
    """A captured table that a test may change."""
    return Path(shutil.copytree(TABLES / name, folder / name))


def timeline(table: Path) -> Path:
    folder = table / ".hoodie" / "timeline"
    return folder if folder.is_dir() else table / ".hoodie"


def finish(table: Path, instant: Instant, action: str) -> str:
    """Complete a plan as Hudi names it; the content does not matter here."""
    name = f"{instant}.{action}" if timeline(table).name == ".hoodie" else f"{instant}_{int(instant) + 5000}.{action}"
    (timeline(table) / name).write_bytes(b"")
    return name


def remove(table: Path, instant: Instant) -> None:
    for file in timeline(table).glob(f"{instant}*"):
        file.unlink()


def commit(table: Path, instant: str, action: str = "deltacommit") -> None:
    finish(table, Instant(instant), action)


def set_property(table: Path, key: str, value: str) -> None:
    file = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{key}=")]
    file.write_text("\n".join([*lines, f"{key}={value}", ""]))
