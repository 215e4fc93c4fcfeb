# SPDX-License-Identifier: Apache-2.0
"""Evaluations of schedules: is the factory asked, when is the schedule due next, and can the table be read."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from lakehand.core.plugins.pools import WaitGroup
from lakehand.domain.actions import Action
from lakehand.domain.errors import PluginBroken, TryLater
from lakehand.domain.processes import Skip
from lakehand.domain.schedules import EvaluationResult, Schedule, spread
from lakehand.domain.tables import Format, Table, TableId
from lakehand.spi.factories import ProcessFactory, ProcessTriggerStrategy

NEVER = timedelta(days=3650)
SOONEST = timedelta(seconds=1)  # a factory that wants to be asked again at once waits this long
RETRY = timedelta(minutes=1)  # after an evaluation that failed
DEFERRAL = timedelta(seconds=15)
FAILED = "the evaluation failed: "  # begins the reason of an evaluation that failed
STALE = 60.0  # seconds after which a task that still waits for a thread is deferred
FRESH = timedelta(seconds=10)  # for this long a stored change token is used instead of a second probe
QUIET = timedelta(minutes=2)  # unless a notification came within this time: the stored token may be older than it
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One schedule of a table whose change token is known."""

    table: Table
    schedule: Schedule
    strategy: ProcessTriggerStrategy
    token: str
    now: datetime

    @property
    def must_decide(self) -> bool:
        """False if nothing happened since the factory last decided: the last reason still holds."""
        known, strategy = self.schedule, self.strategy
        if known.last_decision is None or (known.decide_at is not None and known.decide_at <= self.now):
            return True
        if strategy.on_new_snapshot and (known.wakes > 0 or self.token != known.seen_token):
            return True
        due = interval_due(known, strategy)
        return due is not None and due <= self.now

    def unchanged(self) -> EvaluationResult:
        due = self.next_due(self.schedule)
        return EvaluationResult(schedule=self.schedule, next_due=due, reason=None, decide_at=self.schedule.decide_at)

    def skipped(self, skip: Skip) -> EvaluationResult:
        again = None if skip.look_again is None else self.now + max(skip.look_again, SOONEST)
        due = self.next_due(replace(self.schedule, last_decision=self.now, decide_at=again))
        return self.decided(next_due=due, reason=skip.reason, decide_at=again)

    def started(self, reason: str) -> EvaluationResult:
        """A change-driven action is evaluated again until its factory skips."""
        again = self.now if self.strategy.on_new_snapshot else None
        due = self.next_due(replace(self.schedule, last_decision=self.now, last_start=self.now, decide_at=again))
        return replace(self.decided(next_due=due, reason=reason, decide_at=again), started=True)

    def decided(self, *, next_due: datetime, reason: str, decide_at: datetime | None) -> EvaluationResult:
        return EvaluationResult(
            schedule=self.schedule, next_due=next_due, reason=reason, decide_at=decide_at, decided_at=self.now,
            saw=self.token,
        )  # fmt: skip

    def next_due(self, schedule: Schedule) -> datetime:
        """By the interval or as the factory asked, unless a wake-up comes first."""
        times = (self.now + NEVER, interval_due(schedule, self.strategy), schedule.decide_at)
        return max(min(time for time in times if time is not None), self.now)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableEvaluation:
    """One table and its due schedules, evaluated on the pool of its format."""

    table: Table
    schedules: tuple[Schedule, ...]
    now: datetime
    began: float  # on the monotonic clock
    group: WaitGroup

    @property
    def stored_token(self) -> str | None:
        """The token that the prober has just stored for a change that these schedules have not seen; None: probe."""
        table = self.table
        is_fresh = table.changed_at is not None and self.now - table.changed_at <= FRESH
        is_quiet = table.notified_at is None or self.now - table.notified_at > QUIET
        is_new = any(schedule.seen_token != table.change_token for schedule in self.schedules)
        return table.change_token if is_fresh and is_new and is_quiet else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryEvaluation:
    """The evaluations of a table that need one factory's decision, made on the pool of that factory."""

    whole: TableEvaluation
    factory: ProcessFactory
    open: list[Evaluation] = field(default_factory=list)  # not decided yet
    answers: list[Action] = field(default_factory=list)  # those that the factory has answered
    errors: dict[Action, Exception] = field(default_factory=dict)  # those that failed

    @property
    def pool(self) -> str:
        return f"decides {self.factory.name}"

    @property
    def key(self) -> tuple[TableId, str]:
        return self.whole.table.id, self.factory.name


def by_table(due: Sequence[Schedule]) -> Iterator[tuple[TableId, Iterator[Schedule]]]:
    key = attrgetter("table")
    return groupby(sorted(due, key=key), key=key)


def reading_pool(format: Format) -> str:
    return f"reads {format}"


def interval_due(schedule: Schedule, strategy: ProcessTriggerStrategy) -> datetime | None:
    """Next unevaluated tick since the last start, plus jitter that is stable per table.

    Counted from the start, so that a long run does not postpone the next one.
    """
    last = schedule.last_decision
    if strategy.interval is None or last is None:
        return None
    jitter = spread(f"{schedule.table}:{schedule.action}", strategy.interval)
    start = schedule.last_start
    if start is None:
        return last + strategy.interval + jitter
    ticks = max((last - start - jitter) // strategy.interval, 0)
    return start + strategy.interval * (ticks + 1) + jitter


def heartbeat(table: Table) -> timedelta:
    """The first one is shorter by a part of its own: tables registered together are not probed together forever."""
    whole = table.spec.heartbeat_timeout
    return whole if table.probed_at is not None else whole - spread(f"{table.id}", whole, share=1.0)


def unreadable(table: Table, error: Exception | str) -> tuple[str, timedelta]:
    """The reason, and when to try again: at the heartbeat, or earlier when the plugin is called again."""
    whole = table.spec.heartbeat_timeout
    again = time_to_wait(table.id, error) if isinstance(error, TryLater) else whole
    return unreadable_text(table.location, error), min(again, whole)


def unreadable_text(location: str, error: Exception | str) -> str:
    return f"{location} cannot be read: {error}"


def failed(table: Table, schedule: Schedule, error: Exception, now: datetime) -> EvaluationResult:
    again = time_to_wait(table.id, error) if isinstance(error, TryLater) else RETRY
    again = min(table.spec.heartbeat_timeout, again)
    return undecided(schedule, f"{FAILED}{error}", again=again, now=now)


def undecided(schedule: Schedule, reason: str, *, again: timedelta, now: datetime) -> EvaluationResult:
    """The next evaluation decides, changed or not. The reason is of this time, not of the last decision."""
    due = now + max(again, SOONEST)
    return EvaluationResult(schedule=schedule, next_due=due, reason=reason, decide_at=due, decided_at=now)


def deferred(
    table: TableId, schedules: Sequence[Schedule], now: datetime, reason: str | None = None
) -> list[EvaluationResult]:
    due = now + DEFERRAL + spread(f"{table}", DEFERRAL, share=1.0)
    return [EvaluationResult(schedule=s, next_due=due, reason=reason, deferred=True) for s in schedules]


def time_to_wait(table: TableId, error: TryLater) -> timedelta:
    """Until it is tried again, plus jitter, so that not all tables come back at once."""
    return error.again + spread(f"{table}", RETRY, share=1.0)


def why_not_understood(
    part: FactoryEvaluation, error: Exception | None, schedules: Callable[[], Sequence[Schedule]]
) -> str | None:
    """Why the table's metadata cannot be understood; empty if it can be again, None if these evaluations do not tell.

    It cannot be if it could not be inspected (``error``), if an evaluation could not read a file, or if the evaluation
    of each of its actions has failed. ``schedules``: reads all of its schedules.
    """
    unread = error or next((one for one in part.errors.values() if isinstance(one, OSError)), None)
    first = unread or next(iter(part.errors.values()), None)
    if isinstance(first, TryLater) or (first is None and not part.whole.table.problem):
        return None
    if unread is not None:
        return unreadable_text(part.whole.table.location, unread)
    others = [s.last_reason.startswith(FAILED) for s in schedules() if s.action not in {*part.errors, *part.answers}]
    if part.answers:
        return None if part.errors or any(others) else ""
    if first is None or isinstance(first, PluginBroken) or not all(others):
        return None
    return unreadable_text(part.whole.table.location, first)


def log_readability(table: TableId, before: str | None, now: str) -> None:
    """One line when a table cannot be read any more, and one when it can be again."""
    if now and not before:
        log.warning("a table cannot be read", extra={"table": table, "reason": now})
    elif before and not now:
        log.info("a table can be read again", extra={"table": table})
