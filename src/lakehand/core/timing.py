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
        """Its factory need not be asked. One that goes by the clock alone takes no notice of changes."""
        known = replace(self.schedule, decide_at=self.asked_at(self.schedule, self.schedule.decide_at))
        is_news = not self.strategy.on_new_snapshot and self.token != known.seen_token
        return Look(
            schedule=self.schedule, next_due=self.next_due(known), reason=None, decide_at=known.decide_at,
            saw=self.token if is_news else None,
        )  # fmt: skip

    def skipped(self, skip: Skip) -> Look:
        again = None if skip.look_again is None else self.now + max(skip.look_again, SOONEST)
        return self.decided(replace(self.schedule, last_decision=self.now), again, skip.reason)

    def started(self, reason: str, *, is_a_plan: bool) -> Look:
        """Where plans wait in a table there may be more of them: it is asked about again until its factory skips."""
        again = self.now if is_a_plan and self.strategy.on_new_snapshot else None
        known = replace(self.schedule, last_decision=self.now, last_start=self.now)
        return replace(self.decided(known, again, reason), started=True)

    def decided(self, known: Schedule, again: datetime | None, reason: str) -> Look:
        known = replace(known, decide_at=self.asked_at(known, again))
        return Look(
            schedule=self.schedule, next_due=self.next_due(known), reason=reason, decide_at=known.decide_at,
            decided=True, saw=self.token,
        )  # fmt: skip

    def asked_at(self, known: Schedule, again: datetime | None) -> datetime | None:
        """When its factory is asked whatever the table looks like: as it wished, or by the interval if sooner."""
        times = [time for time in (again, interval_due(known, self.strategy)) if time is not None]
        return min(times) if times else None

    def next_due(self, known: Schedule) -> datetime:
        """When it is looked at again if nobody speaks up: at the heartbeat timeout, or when its factory is asked."""
        by_heartbeat = self.now + heartbeat(self.table, self.schedule) if self.strategy.on_new_snapshot else None
        times = [time for time in (by_heartbeat, known.decide_at) if time is not None]
        return max(min(times, default=self.now + NEVER), self.now)


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


def heartbeat(table: Table, schedule: Schedule) -> timedelta:
    """After the first look a part of it: tables that were registered together are not looked at together for ever."""
    whole = table.spec.heartbeat_timeout
    return whole if schedule.last_look is not None else whole - spread(f"{table.id}", whole, share=1.0)


def failed(table: Table, schedule: Schedule, reason: str, *, again: timedelta, now: datetime) -> Look:
    """Nothing was seen; the next look decides, whatever the table looks like then."""
    due = now + max(again, SOONEST)
    return Look(schedule=schedule, next_due=due, reason=reason, decide_at=due)
