# SPDX-License-Identifier: Apache-2.0
"""Counts what operations did in the hour in which they ended, within the transaction that ends them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from lakehand.domain.fleet import RETRIED
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import reported_number
from lakehand.spi.health import BYTES_REWRITTEN, FILES_REMOVED
from lakehand.store.clock import to_millis
from lakehand.store.compiled_statements import BatchInsert
from lakehand.store.dialects import upsert
from lakehand.store.schema import operation_hour

HOUR = 3_600_000  # milliseconds
KEYS = ("hour", "action", "status")
COUNTED = ("operations", "attempts", "files_removed", "bytes_rewritten", "wait_millis", "run_millis")


@dataclass(slots=True)
class OperationHours:
    """Must be the last write of its transaction: whoever locks a row here waits for nothing more, so none deadlock."""

    dialect: str
    insert: BatchInsert = field(init=False)

    def __post_init__(self) -> None:
        self.insert = BatchInsert(upsert(self.dialect, operation_hour, KEYS, set_=(), add=COUNTED))

    def count(self, tx: Connection, rows: Iterable[dict[str, Any]]) -> None:
        if merged := merge_equal(rows):
            self.insert.run(tx, merged)


def merge_equal(rows: Iterable[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """One row per key, in a fixed order."""
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        known = by_key.get(key)
        by_key[key] = {**row, **{name: known[name] + row[name] for name in COUNTED}} if known else row
    return [by_key[key] for key in sorted(by_key)]


def ended_row(operation: Operation, *, at: int, has_run: bool) -> dict[str, Any]:
    """Of an operation that ended; ``has_run``: with an attempt, which ended now, too."""
    started = operation.submitted_at if has_run else None
    return hour_row(operation.process.action, operation.status.value, at) | {
        "attempts": operation.run_times,
        "files_removed": reported_number(operation.result.get(FILES_REMOVED)),
        "bytes_rewritten": reported_number(operation.result.get(BYTES_REWRITTEN)),
        "wait_millis": between(operation.due_at, to_millis(started) if started else at),
        "run_millis": between(operation.started_at or started, at) if has_run else 0,
    }


def retried_row(operation: Operation, *, at: int) -> dict[str, Any]:
    """Of one attempt that failed and is followed by another one."""
    run = between(operation.started_at or operation.submitted_at, at)
    return hour_row(operation.process.action, RETRIED, at) | {"attempts": 1, "run_millis": run}


def waited_row(row: Row[Any], at: int, status: Status = Status.CANCELED) -> dict[str, Any]:
    """Of an operation that ended while it waited; its row as it was, or is now."""
    waited = {"attempts": row.run_times, "wait_millis": max(at - row.schedule_time, 0)}
    return hour_row(row.action, status.value, at) | waited


def hour_row(action: str, status: str, at: int) -> dict[str, Any]:
    key = {"hour": at - at % HOUR, "action": str(action), "status": status}
    return dict.fromkeys(COUNTED, 0) | key | {"operations": 1}


def between(start: datetime | None, end: int) -> int:
    return max(end - to_millis(start), 0) if start else 0
