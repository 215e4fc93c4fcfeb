# SPDX-License-Identifier: Apache-2.0
"""All tables and operations in numbers, and alerts."""

from dataclasses import dataclass
from datetime import datetime

from lakehand.client.answers import Answer
from lakehand.client.table_answers import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Answer):
    """Sums over all registered tables whose health is known."""

    tables: int
    files: int
    small_files: int
    bytes: int
    small_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProblem(Answer):
    """A table whose action failed for good, or that cannot be read."""

    table: TableName
    state: str
    reason: str
    since: datetime | None
    action: str | None
    operation: int | None  # the one that failed; it can be retried


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProblems(Answer):
    items: list[FleetProblem]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Answer):
    """What was done in some hours."""

    since: datetime
    operations: int
    succeeded: int
    failed: int
    success_rate: float | None
    attempts: int
    files_removed: int
    bytes_rewritten: int
    mean_wait_seconds: float | None
    mean_run_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue(Answer):
    queue: str
    waiting: int
    oldest: datetime | None
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet(Answer):
    states: dict[str, int]  # how many tables are in each state
    totals: Totals
    needs_person: FleetProblems
    done: Done
    queues: list[Queue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Answer):
    id: int
    kind: str
    severity: str
    title: str
    message: str
    key: str  # the cause: at most one open alert has it
    table: int | None
    operation: int | None
    owner: str
    queue: str
    format: str
    instance: str
    opened_at: datetime
    last_seen: datetime
    resolved_at: datetime | None
    count: int
    silenced_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverTest(Answer):
    receiver: str
    sent: bool
    problem: str  # why it was not sent
