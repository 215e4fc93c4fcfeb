# SPDX-License-Identifier: Apache-2.0
"""The request and the answer about the fleet: states of all tables, what needs a person, what was done, the queues."""

from dataclasses import dataclass, field

from lakehand.api.fields import Answer, Moment, about
from lakehand.api.tables import TableName
from lakehand.domain.fleet import TableState

LONGEST = 366 * 24  # hours


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetQuery:
    hours: int = field(default=24, metadata=about("The time for which `done` counts.", ge=1, le=LONGEST))
    limit: int = field(default=20, metadata=about("How many that need a person are listed.", ge=1, le=1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsAnswer(Answer):
    """Sums over all registered tables whose health is known."""

    tables: int = field(metadata=about("All registered tables."))
    files: int
    small_files: int
    bytes: int
    small_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProblemAnswer(Answer):
    """A table whose action failed for good, or that cannot be read."""

    table: TableName
    state: TableState = field(metadata=about("failed or unreadable."))
    reason: str
    since: Moment | None
    action: str | None
    operation: int | None = field(metadata=about("The one that failed; it can be retried."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemsAnswer(Answer):
    items: list[FleetProblemAnswer] = field(metadata=about("The newest first."))
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneAnswer(Answer):
    since: Moment = field(metadata=about("The beginning of the first whole hour that is counted."))
    operations: int = field(metadata=about("All that ended."))
    succeeded: int
    failed: int
    success_rate: float | None = field(metadata=about("Of those that succeeded or failed; null if there are none."))
    attempts: int
    files_removed: int
    bytes_rewritten: int
    mean_wait_seconds: float | None = field(metadata=about("From due to submitted."))
    mean_run_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer(Answer):
    queue: str
    waiting: int
    oldest: Moment | None = field(metadata=about("Since when the oldest that may start is due."))
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer(Answer):
    """All tables and operations in numbers."""

    states: dict[TableState, int] = field(metadata=about("How many tables are in each state."))
    totals: TotalsAnswer
    needs_person: ProblemsAnswer
    done: DoneAnswer
    queues: list[QueueAnswer]
