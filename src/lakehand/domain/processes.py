# SPDX-License-Identifier: Apache-2.0
"""Processes: work described as data, what a factory decides about it, and when a failed attempt is repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NewType, TypeAlias

from lakehand.domain.actions import Action
from lakehand.domain.texts import Word

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Instant = NewType("Instant", str)

WHOLE_TABLE = "table"
MOST = 2**53  # what a job reports is not trusted further than this


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProcess:
    """What to do to one table: stored, shown, and submitted again after a crash."""

    action: Action
    job: str = ""  # the PySpark job, for instance "hudi.compaction"; empty until a factory has admitted it
    engine: str = "spark"
    instant: Instant | None = None  # the plan's own instant; None: the service gives one
    parameters: Mapping[str, Json] = field(default_factory=dict)
    conflict_class: str = WHOLE_TABLE  # at most one live operation per table and class
    urgent: bool = False  # goes before everything else of its table
    reason: str = ""  # why it is needed, with numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Nothing is to be done now: why, and when to evaluate again (None: when the table changes or is due)."""

    reason: str
    look_again: timedelta | None = None
    is_starved: bool = False  # it has been needed, and kept waiting by others' work, for far longer than it should


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """The process has nothing to do any more: the plan is gone, or someone else finished it."""

    reason: str


class Finding(Word):
    DONE = "done"  # the effect is in the table
    NOT_DONE = "not-done"  # the table can be read, and the effect is not there
    GONE = "gone"  # the plan is gone from the table, or the table itself
    UNREADABLE = "unreadable"  # the table could not be read: verify again


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the table itself says about a process."""

    finding: Finding
    reason: str
    numbers: Mapping[str, Json] = field(default_factory=dict)


class Remedy(Word):
    FATAL = "fatal"  # a retry cannot help
    RETRY = "retry"  # retry with back-off, up to the maximum
    NOT_YET = "not-yet"  # retry later without using up an attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt failed, and what follows from it."""

    reason: str  # a short, stable word group for metrics, for instance "lock-held"
    message: str
    remedy: Remedy = Remedy.RETRY
    delay: timedelta | None = None  # before the retry, if the factory knows better than the back-off


def reported_number(value: Json) -> int:
    """A number in the result of a job, as far as it can be one; else 0."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return min(max(int(str(value)), 0), MOST) if is_number else 0


def back_off(times: int, *, first: timedelta, longest: timedelta, factor: float = 2.0) -> timedelta:
    """The pause after so many failures in a row: the first one, then longer by the factor each time."""
    return min(first * factor ** min(max(times, 1) - 1, 32), longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter; ``not yet`` answers wait a steady time and have a much larger budget."""

    max_attempts: int = 5
    first_delay: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    longest_delay: timedelta = timedelta(hours=1)
    jitter: float = 0.2  # the share of the delay that is random
    not_yet_delay: timedelta = timedelta(seconds=30)
    max_deferrals: int = 120

    def delay(
        self, failure: Failure, *, run_times: int, deferrals: int, random: float, retry_on_error: bool = True
    ) -> timedelta | None:
        """How long to wait before the next attempt; None to stop trying. ``random`` is in [0, 1)."""
        if failure.remedy is Remedy.FATAL:
            return None
        if failure.remedy is Remedy.NOT_YET:
            return (
                self._jittered(failure.delay or self.not_yet_delay, random) if deferrals < self.max_deferrals else None
            )
        attempts = run_times - deferrals
        if attempts >= (self.max_attempts if retry_on_error else 1):
            return None
        wait = back_off(attempts, first=self.first_delay, longest=self.longest_delay, factor=self.factor)
        return self._jittered(failure.delay or wait, random)

    def _jittered(self, delay: timedelta, random: float) -> timedelta:
        return delay * (1 + self.jitter * random)
