# SPDX-License-Identifier: Apache-2.0
"""The fleet as people ask for it: how many tables are healthy, what needs a person, what was done. Reads only."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.api.fields import answer, seconds
from lakehand.api.fleet import (
    DoneAnswer,
    FleetAnswer,
    FleetProblemAnswer,
    FleetQuery,
    ProblemsAnswer,
    QueueAnswer,
    TotalsAnswer,
)
from lakehand.api.tables import table_name
from lakehand.core.ports import Store, TableFilter
from lakehand.domain.fleet import (
    POINT_EVERY,
    RETRIED,
    FleetChoices,
    FleetProblems,
    FleetSummary,
    FleetTables,
    FleetTrend,
    OperationCounts,
    OperationHour,
    OperationsDone,
    QueueState,
    TableSort,
    floor_time,
)
from lakehand.domain.operations import Status

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
MOST_CHOICES = 100
KEEP_CHOICES = 10.0  # seconds
SHOWN_OWNERS = 3
STEPS = (POINT_EVERY, HOUR, 6 * HOUR, DAY)
MOST_STEPS = 400
EVERY_TABLE = TableFilter()


@dataclass(frozen=True, kw_only=True)
class FleetService:
    store: Store
    _choices: deque[tuple[float, FleetChoices]] = field(default_factory=lambda: deque(maxlen=1))

    def show(self, query: FleetQuery) -> FleetAnswer:
        summary, problems = self.summary(), self.needs_person(limit=query.limit)
        items = [answer(FleetProblemAnswer, one, table=table_name(one.table)) for one in problems.items]
        done = self.done(timedelta(hours=query.hours))
        waits = {"mean_wait_seconds": seconds(done.mean_wait), "mean_run_seconds": seconds(done.mean_run)}
        return FleetAnswer(
            states=dict(summary.states),
            totals=answer(TotalsAnswer, summary.totals),
            needs_person=ProblemsAnswer(items=items, total=problems.total),
            done=answer(DoneAnswer, done, **waits),
            queues=[answer(QueueAnswer, one) for one in self.queues()],
        )

    def summary(self, filter: TableFilter = EVERY_TABLE) -> FleetSummary:
        """How many tables are in each state, and their files and bytes."""
        return self.store.fleet.summary(filter)

    def choices(self) -> FleetChoices:
        """Formats, catalogs, owners and queues to filter by; at most a hundred of each. Read again after a while."""
        known = self._choices
        if not known or time.monotonic() - known[-1][0] > KEEP_CHOICES:
            known.append((time.monotonic(), self.store.fleet.choices(limit=MOST_CHOICES)))
        return known[-1][1]

    def tables(
        self, filter: TableFilter = EVERY_TABLE, *, sort: TableSort = TableSort.NAME, descending: bool = False,
        limit: int = 100, offset: int = 0,
    ) -> FleetTables:  # fmt: skip
        return self.store.fleet.tables(filter, sort=sort, descending=descending, limit=limit, offset=offset)

    def needs_person(self, *, limit: int = 20) -> FleetProblems:
        """Tables that failed for good or cannot be read, newest first."""
        return self.store.fleet.problems(limit=limit)

    def trend(self, span: timedelta = WEEK) -> FleetTrend:
        """Totals in at most some hundred steps: of the fleet, and of the three owners with the most small files."""
        since = self.store.clock.estimate() - span
        return self.store.fleet.trend(since=since, step=step_of(span), owners=SHOWN_OWNERS)

    def operations_by_hour(self, span: timedelta = DAY) -> Sequence[OperationHour]:
        """Each hour until now, oldest first, also those in which nothing ended."""
        now = self.store.clock.estimate()
        first = floor_time(now - span, HOUR)
        hours = [first + HOUR * number for number in range((now - first) // HOUR + 1)]
        return by_hour(self.store.fleet.counts(since=first), hours)

    def done(self, span: timedelta = DAY) -> OperationsDone:
        """What operations did in the last time, from the beginning of its first hour."""
        since = floor_time(self.store.clock.estimate() - span, HOUR)
        return add_up(self.store.fleet.counts(since=since), since)

    def queues(self) -> Sequence[QueueState]:
        """Each queue in which something waits or runs, by its name."""
        depth = self.store.operations.queue_depth(now=self.store.clock.estimate())
        running = self.store.fleet.running()
        names = sorted({*depth, *running})
        waiting = {name: depth.get(name, (0, None)) for name in names}
        return [
            QueueState(queue=name, waiting=waiting[name][0], oldest=waiting[name][1], running=running.get(name, 0))
            for name in names
        ]


def step_of(span: timedelta) -> timedelta:
    """The smallest step that makes no more points than a chart can show."""
    return next((step for step in STEPS if span / step <= MOST_STEPS), STEPS[-1])


def by_hour(counts: Iterable[OperationCounts], hours: Sequence[datetime]) -> Sequence[OperationHour]:
    numbers: defaultdict[datetime, Counter[str]] = defaultdict(Counter)
    for one in counts:
        numbers[one.hour][one.status] += one.operations
    return [OperationHour(hour=hour, **numbers[hour]) for hour in hours]


def add_up(counts: Iterable[OperationCounts], since: datetime) -> OperationsDone:
    ended = [one for one in counts if one.status != RETRIED]
    succeeded, failed = ([one for one in ended if one.status == status] for status in (Status.SUCCEEDED, Status.FAILED))
    ran = [*succeeded, *failed]
    return OperationsDone(
        since=since,
        operations=sum(one.operations for one in ended),
        succeeded=sum(one.operations for one in succeeded),
        failed=sum(one.operations for one in failed),
        attempts=sum(one.attempts for one in ended),
        files_removed=sum(one.files_removed for one in ended),
        bytes_rewritten=sum(one.bytes_rewritten for one in ended),
        mean_wait=mean([one.wait for one in ran], ran),
        mean_run=mean([one.run for one in ran], ran),
    )


def mean(spans: Sequence[timedelta], counts: Sequence[OperationCounts]) -> timedelta | None:
    operations = sum(one.operations for one in counts)
    return sum(spans, timedelta()) / operations if operations else None
