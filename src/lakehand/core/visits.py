# SPDX-License-Identifier: Apache-2.0
"""A visit: one table that is looked at for its due actions, and what comes back from it, in one piece or several."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from lakehand.core.timing import Question, failed
from lakehand.core.turns import Turn
from lakehand.domain.errors import PluginStuck
from lakehand.domain.schedules import Look, Schedule, spread
from lakehand.domain.tables import Format, Table, TableId
from lakehand.spi.factories import ProcessFactory

SLOW_AGAIN = timedelta(minutes=1)
PUT_OFF = timedelta(seconds=15)
STALE = 60.0  # seconds after which a visit that still waits for its turn is put off


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Visit:
    """One table and its due schedules."""

    table: Table
    schedules: tuple[Schedule, ...]
    now: datetime
    began: float  # on the monotonic clock
    turn: Turn | None  # None: nobody waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The questions of a visit that one factory is asked."""

    visit: Visit
    factory: ProcessFactory
    open: list[Question] = field(default_factory=list)  # those that it has not answered yet

    @property
    def lane(self) -> str:
        return f"decides {self.factory.name}"

    @property
    def key(self) -> tuple[TableId, str]:
        return self.visit.table.id, self.factory.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came back: the looks that are over, and the table's sign of change if it was read."""

    looks: Sequence[Look]
    visit: Visit | None = None  # None: no more than the answer to a question of a visit that was told of before
    token: str | None = None
    again: timedelta | None = None  # until the next probe, where that is not the heartbeat's affair


def by_table(due: Sequence[Schedule]) -> Iterator[tuple[TableId, Iterator[Schedule]]]:
    key = attrgetter("table")
    return groupby(sorted(due, key=key), key=key)


def unreadable(visit: Visit, error: Exception | str) -> Outcome:
    """One bad table stops no other: it says why, and is looked at again at its heartbeat."""
    reason = f"{visit.table.location} cannot be read: {error}"
    whole = visit.table.spec.heartbeat_timeout
    again = later(visit.table.id, error.again) if isinstance(error, PluginStuck) else whole
    looks = [failed(visit.table, s, reason, again=min(again, whole), now=visit.now) for s in visit.schedules]
    return Outcome(visit=visit, looks=looks, again=min(again, whole))


def look_failed(table: Table, schedule: Schedule, error: Exception, now: datetime) -> Look:
    again = later(table.id, error.again) if isinstance(error, PluginStuck) else SLOW_AGAIN
    again = min(table.spec.heartbeat_timeout, again)
    return failed(table, schedule, f"the look failed: {error}", again=again, now=now)


def later(table: TableId, again: timedelta) -> timedelta:
    """Whoever waits for a plugin comes back when it is asked again, but not all at the same moment."""
    return again + spread(f"{table}", SLOW_AGAIN, share=1.0)


def lane_of(on: Format) -> str:
    return f"reads {on}"


def put_off(table: Table, schedules: Sequence[Schedule], now: datetime, reason: str | None = None) -> Outcome:
    """There is no time for it now: others go first."""
    due = now + PUT_OFF + spread(f"{table.id}", PUT_OFF, share=1.0)
    return Outcome(looks=[Look(schedule=s, next_due=due, reason=reason, put_off=True) for s in schedules])
