# SPDX-License-Identifier: Apache-2.0
"""When a schedule's factory is asked, and when it is looked at next: a strategy, honoured to the letter. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakehand.domain.processes import Skip
from lakehand.domain.schedules import Look, Schedule, spread
from lakehand.domain.tables import Table
from lakehand.spi.factories import ProcessTriggerStrategy

NEVER = timedelta(days=3650)
SOONEST = timedelta(seconds=1)  # a factory that wants to be asked again at once waits this long


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One look at one action of a table whose sign of change was read."""

    table: Table
    schedule: Schedule
    strategy: ProcessTriggerStrategy
    token: str
    now: datetime

    @property
    def must_decide(self) -> bool:
        """A table that looks as it did when the factory last saw it, and nobody spoke of, keeps the reason it has."""
        known, strategy = self.schedule, self.strategy
        if known.last_decision is None or (known.decide_at is not None and known.decide_at <= self.now):
            return True
        if strategy.on_new_snapshot and (known.wakes > 0 or self.token != known.seen_token):
            return True
        due = interval_due(known, strategy)
        return due is not None and due <= self.now

    def unchanged(self) -> Look:
        due = self.next_due(self.schedule)
        return Look(schedule=self.schedule, next_due=due, reason=None, decide_at=self.schedule.decide_at)

    def skipped(self, skip: Skip) -> Look:
        again = None if skip.look_again is None else self.now + max(skip.look_again, SOONEST)
        due = self.next_due(replace(self.schedule, last_decision=self.now, decide_at=again))
        return self.decided(next_due=due, reason=skip.reason, decide_at=again)

    def started(self, reason: str) -> Look:
        """A table that is decided upon when it changes is asked about again until its factory skips."""
        again = self.now if self.strategy.on_new_snapshot else None
        due = self.next_due(replace(self.schedule, last_decision=self.now, last_start=self.now, decide_at=again))
        return replace(self.decided(next_due=due, reason=reason, decide_at=again), started=True)

    def decided(self, *, next_due: datetime, reason: str, decide_at: datetime | None) -> Look:
        return Look(
            schedule=self.schedule, next_due=next_due, reason=reason, decide_at=decide_at, decided=True, saw=self.token
        )

    def next_due(self, schedule: Schedule) -> datetime:
        """When it is looked at again if nobody speaks up and no probe sees a change: by the interval, or as asked."""
        times = (self.now + NEVER, interval_due(schedule, self.strategy), schedule.decide_at)
        return max(min(time for time in times if time is not None), self.now)


def interval_due(schedule: Schedule, strategy: ProcessTriggerStrategy) -> datetime | None:
    """The first whole interval after the last start that no decision has answered yet, a steady bit later per table.

    Counted from the start, so that a long run does not push the next one away.
    """
    last = schedule.last_decision
    if strategy.interval is None or last is None:
        return None
    bit = spread(f"{schedule.table}:{schedule.action}", strategy.interval)
    start = schedule.last_start
    if start is None:
        return last + strategy.interval + bit
    answered = max((last - start - bit) // strategy.interval, 0)
    return start + strategy.interval * (answered + 1) + bit


def heartbeat(table: Table) -> timedelta:
    """After the first look a part of it: tables that were registered together are not probed together for ever."""
    whole = table.spec.heartbeat_timeout
    return whole if table.looked_at is not None else whole - spread(f"{table.id}", whole, share=1.0)


def failed(table: Table, schedule: Schedule, reason: str, *, again: timedelta, now: datetime) -> Look:
    """Nothing was seen; the next look decides, whatever the table looks like then."""
    due = now + max(again, SOONEST)
    return Look(schedule=schedule, next_due=due, reason=reason, decide_at=due)
