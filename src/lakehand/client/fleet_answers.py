# SPDX-License-Identifier: Apache-2.0
"""All tables and operations in numbers, and alerts."""

from dataclasses import dataclass
from datetime import datetime

from lakehand.api.alerts import AlertAnswer, TestAnswer
from lakehand.api.fields import Answer
from lakehand.api.tables import TableName

# The client's names of what the API's schemas call otherwise.
Alert = AlertAnswer
ReceiverTest = TestAnswer


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
