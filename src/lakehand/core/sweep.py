# SPDX-License-Identifier: Apache-2.0
"""Probes tables at rest, almost all of a sweep: whoever has not changed costs no more than the probe itself."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from lakehand.core.lanes import Lanes, Task
from lakehand.core.runtimes import Runtimes
from lakehand.core.turns import Turn
from lakehand.domain.schedules import Resting

BUNCH = 8  # tables that a thread takes at once
STALE = 60.0  # seconds after which one that still waits for its turn is put off


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """A table that is not at rest any more: its new sign of change, or why it cannot be read."""

    table: Resting
    token: str | None = None
    error: Exception | None = None


@dataclass(slots=True, kw_only=True)
class Bunch:
    """Tables of one format; those in front were probed."""

    tables: deque[Resting]
    began: float
    turn: Turn | None


@dataclass(kw_only=True)
class Sweep:
    """What came back lies here until the coordinator takes it."""

    runtimes: Runtimes
    lanes: Lanes
    out: set[object]  # tables that a thread is busy with
    quiet: deque[Resting] = field(default_factory=deque)
    news: deque[News] = field(default_factory=deque)
    late: deque[Resting] = field(default_factory=deque)  # there was no time for them

    def tasks(self, lane: str, resting: Sequence[Resting], turn: Turn | None) -> Iterator[Task]:
        """In bunches. A table that is still out, and all while the lane is full, are put off."""
        if turn is None and not self.lanes.has_room(lane):
            self.late.extend(resting)
            return
        free = [one for one in resting if one.table not in self.out]
        self.late.extend(one for one in resting if one.table in self.out)
        self.out.update(one.table for one in free)
        began = time.monotonic()
        for start in range(0, len(free), BUNCH):
            bunch = Bunch(tables=deque(free[start : start + BUNCH]), began=began, turn=turn)
            yield Task(partial(self.probe, bunch), partial(self.left, bunch))

    def probe(self, bunch: Bunch) -> None:
        is_stale = time.monotonic() - bunch.began > STALE
        while bunch.tables:
            one = bunch.tables[0]
            try:
                self.late.append(one) if is_stale else self.probe_one(one)
                bunch.tables.popleft()
            finally:
                self.out.discard(one.table)
        if bunch.turn is not None:
            bunch.turn.back()

    def probe_one(self, one: Resting) -> None:
        try:
            token = self.runtimes.probe_resting(one)
        except Exception as error:
            self.news.append(News(table=one, error=error))
            return
        if token == one.seen_token:
            self.quiet.append(one)
        else:
            self.news.append(News(table=one, token=token))

    def left(self, bunch: Bunch, why: str) -> None:
        """The thread hangs at the first of the bunch, which still counts as out; the others come again soon."""
        hanging, *others = bunch.tables
        self.news.append(News(table=hanging, error=TimeoutError(why)))
        self.late.extend(others)
        self.out.difference_update(one.table for one in others)
        if bunch.turn is not None:
            bunch.turn.back()
