# SPDX-License-Identifier: Apache-2.0
"""Processes: work described as data, and what a factory decides about it."""

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
