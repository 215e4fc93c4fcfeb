# SPDX-License-Identifier: Apache-2.0
"""The trace of an operation, from what made it due to the verified result. Made from what is stored, when it is over:
whichever instance ends the operation writes the whole trace, and twice is the same trace."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakehand.domain.operations import Attempt, Operation, Status
from lakehand.domain.tables import Table

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    key: str  # unique in its trace
    name: str
    start: datetime
    end: datetime
    parent: str = ""  # the key of its parent; empty: the root
    error: str = ""
    attributes: Mapping[str, Value] = field(default_factory=dict)


def trace_id(operation: Operation) -> int:
    return number_of(f"trace:{operation.tag}", 16)


def span_id(operation: Operation, key: str) -> int:
    return number_of(f"span:{operation.tag}:{key}", 8)


def number_of(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def spans_of(operation: Operation, table: Table, attempts: Sequence[Attempt], *, now: datetime) -> Iterator[Span]:
    """The root first. ``now``: when the result was stored, that is, after it was verified."""
    ended = max(now, operation.finished_at or now)
    failed = operation.reason if operation.status is Status.FAILED else ""
    yield Span(
        key="operation", name=f"{operation.process.action} {table.name}", start=operation.due_at, end=ended,
        error=failed, attributes=facts_of(operation, table),
    )  # fmt: skip
    yield child("decide", operation.due_at, operation.created_at, why=operation.process.reason, by=operation.origin)
    waiting = operation.created_at
    for attempt in attempts:
        yield child(f"wait {attempt.number}", waiting, attempt.started_at, name="wait", queue=operation.queue)
        over = attempt.finished_at or ended
        yield Span(
            key=f"attempt {attempt.number}", name="attempt", parent="operation", start=attempt.started_at, end=over,
            error=attempt.failure.message if attempt.failure else "",
            attributes={
                "lakehand.attempt": attempt.number, "lakehand.engine": attempt.engine,
                "lakehand.handle": str(attempt.handle), "lakehand.instance": str(attempt.instance),
                "lakehand.outcome": attempt.outcome,
            },
        )  # fmt: skip
        waiting = over
    if attempts:
        yield child("verify", waiting, ended, result=operation.reason)


def child(key: str, start: datetime, end: datetime, *, name: str = "", **facts: str) -> Span:
    attributes = {f"lakehand.{fact}": value for fact, value in facts.items()}
    return Span(key=key, name=name or key, parent="operation", start=start, end=max(start, end), attributes=attributes)


def facts_of(operation: Operation, table: Table) -> Mapping[str, Value]:
    named: dict[str, Value] = {
        "operation": operation.id, "instant": str(operation.instant), "action": str(operation.process.action),
        "status": str(operation.status), "table": table.name, "table.id": table.id, "format": str(table.format),
        "location": table.location, "owner": operation.owner, "queue": operation.queue, "asked_by": operation.origin,
        "attempts": operation.run_times,
    }  # fmt: skip
    numbers = {name: value for name, value in operation.result.items() if isinstance(value, int | float)}
    return {f"lakehand.{name}": value for name, value in (named | numbers).items()}
