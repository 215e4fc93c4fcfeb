# SPDX-License-Identifier: Apache-2.0
"""By number, by time, or both: has enough come together, or has the oldest of it waited long enough.

A table that is silent changes no more, so a decision that waits for time says when it is due. The age counts from the
oldest change that a run would merge, by the table's own times: where a run would save nothing, there is none.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import NamedTuple

from lakehand.domain.processes import Skip
from lakehand.spi.kit.rows import SettingRow, choice_setting, duration_setting, duration_text

NUM, TIME, NUM_OR_TIME, NUM_AND_TIME = "num", "time", "num-or-time", "num-and-time"
PAIR = 2  # the fewest files that can be merged
MAX_AGE, LEAST_AGE = timedelta(days=1), timedelta(minutes=1)


class TriggerSettings(NamedTuple):
    """The two settings of an action that can be due by time."""

    strategy: SettingRow[str]
    max_age: SettingRow[timedelta]


def trigger_settings(action: str, oldest: str) -> TriggerSettings:
    """``action``: with its format in front. ``oldest``: the change whose age counts.

    The default is the number alone: an age makes each quiet table of a fleet due once more, for little work each and
    with a share of its writers' time. Whoever sets it knows that somebody reads what it merges.
    """
    return TriggerSettings(
        choice_setting(
            f"{action}.trigger", "what makes it due: enough (a number), old enough (`max-age`), either, or both",
            NUM, TIME, NUM_OR_TIME, NUM_AND_TIME,
        ),
        duration_setting(
            f"{action}.max-age", f"the age at which {oldest} is due, unless the trigger is `num`", MAX_AGE,
            floor=LEAST_AGE,
        ),
    )  # fmt: skip


class Backlog(NamedTuple):
    """What waits in a table, or in a part of it that is rewritten by itself."""

    is_enough: bool  # by number
    since: datetime | None = None  # the oldest that a run would merge; None: a run would save nothing, or nobody asks


class Trigger(NamedTuple):
    """The settings of one decision, and its moment."""

    now: datetime
    strategy: str = NUM
    max_age: timedelta = MAX_AGE

    @property
    def has_age(self) -> bool:
        """False: nobody asks since when something waits."""
        return self.strategy != NUM

    def least(self, number: int, by_time: int) -> int:
        """How much there must be: ``by_time`` is the least that a run could merge."""
        return min(number, by_time) if self.strategy == TIME else number

    def due_at(self, waiting: Backlog) -> datetime | None:
        """When it is due if nothing changes; None: never."""
        by_number = self.now if waiting.is_enough else None
        by_time = waiting.since + self.max_age if waiting.since and self.has_age else None
        if self.strategy == NUM_OR_TIME:
            return by_number or by_time
        if self.strategy == NUM_AND_TIME:
            return by_time if waiting.is_enough else None
        return by_time if self.strategy == TIME else by_number

    def is_due(self, waiting: Backlog) -> bool:
        due = self.due_at(waiting)
        return due is not None and due <= self.now

    def why(self, waiting: Iterable[Backlog]) -> str:
        """What the age has to do with what is due, for the end of a reason; empty where the number alone decided."""
        due = [one for one in waiting if self.is_due(one) and not (one.is_enough and self.strategy == NUM_OR_TIME)]
        since = min((one.since for one in due if one.since and self.has_age), default=None)
        if since is None:
            return ""
        return f"; the oldest, from {minute(since)} UTC, is older than {duration_text(self.max_age)}"

    def skip(self, reason: str, waiting: Iterable[Backlog]) -> Skip:
        """Nothing is due: until when, if time alone will change that."""
        waiting = list(waiting)
        due = min((at for one in waiting if (at := self.due_at(one))), default=None)
        if due is not None:
            since = due - self.max_age
            then = f"{due:%H:%M}" if due.date() == since.date() else minute(due)
            reason = f"{reason}; the oldest, from {minute(since)} UTC, is due at {then} UTC"
            return Skip(reason=reason, look_again=due - self.now)
        if self.has_age and (ages := [one.since for one in waiting if one.since]):
            reason = f"{reason}; the oldest is from {minute(min(ages))} UTC, and {self.strategy} needs the number, too"
        return Skip(reason=reason)


def mergeable_since(times: Iterable[datetime]) -> datetime | None:
    """Since when files could be merged: one alone has nothing to be merged with, and may be what a rewrite left."""
    first = nsmallest(2, times)
    return first[1] if len(first) > 1 else None


def minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
