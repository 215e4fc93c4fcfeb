# SPDX-License-Identifier: Apache-2.0
"""Finds changes that nobody told of: probes each table at its heartbeat, and wakes the actions that follow changes.

Most tables have not changed, so this is the path of the many: one row and one cheap probe for each of them, whatever
number of actions it has. Safe in every instance at once.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehand.core.lanes import Lanes, Task
from lakehand.core.news import tell
from lakehand.core.plugins import Plugins
from lakehand.core.ports import DueProbe, Metrics, Store
from lakehand.core.runtimes import Runtimes
from lakehand.core.set_aside import set_aside
from lakehand.core.turns import Turn, back
from lakehand.core.visits import PUT_OFF, STALE, lane_of, later
from lakehand.domain.actions import Action
from lakehand.domain.errors import PluginStuck
from lakehand.domain.tables import Format, Table, TableId

BATCH = 2000
FEW = 16  # tables that a thread probes one after the other before it looks for other work
TIME_TO_LIVE = timedelta(minutes=2)
PATIENCE = 1.0  # seconds for those that are not back yet, before the others are stored and new ones are sent


class Probed(NamedTuple):
    """What came back from one table: its sign of change, or why there is none."""

    probe: DueProbe
    token: str | None = None
    error: Exception | None = None
    is_put_off: bool = False  # there was no time for it

    @property
    def is_news(self) -> bool:
        """Those that wait for changes are to look themselves: at the change, or at what keeps us from reading."""
        return not self.is_put_off and self.token != self.probe.token


@dataclass(kw_only=True)
class Prober:
    """Sends tables out on the lanes of their formats, a few at a time, and stores what comes back, in batches."""

    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    lanes: Lanes
    hanging: dict[object, str]  # shared with the coordinator: where a thread hangs that nobody waits for, and why
    on_news: Callable[[], None]
    _back: deque[Probed] = field(default_factory=deque)
    _turn: Turn = field(default_factory=Turn)  # the batch that is out
    _out: set[TableId] = field(default_factory=set)

    def run_once(self) -> bool:
        """Send one batch, and store what the one before brought back meanwhile. True when the batch was full.

        Then there may be more, and its outcomes are stored while the next one is out; the last one is waited for.
        """
        now = self.store.clock.now()
        due = self.store.probes.claim_due(now=now, time_to_live=TIME_TO_LIVE, limit=BATCH)
        self._turn.wait(PATIENCE)
        back = self.take_back()
        self._turn = self.send(due) if due else Turn()
        self.settle(back, now)
        if len(due) >= BATCH:
            return True
        self._turn.wait(PATIENCE)
        self._turn = Turn()
        self.settle(self.take_back(), now)
        return False

    def send(self, due: Sequence[DueProbe]) -> Turn:
        """Nobody waits for a lane that still owes something."""
        turn, began, owing = Turn(), time.monotonic(), self.lanes.busy()
        for lane, probes in by_lane(due).items():
            awaited = None if lane in owing else turn
            ready = list(self.free(lane, probes, is_awaited=awaited is not None))
            errands = [Errand(self, few, began, awaited) for few in in_parts(ready)]
            if awaited is not None:
                awaited.expect(len(errands))
            self.lanes.post_all(lane, [Task(errand.run, errand.left) for errand in errands])
        return turn

    def free(self, lane: str, probes: Sequence[DueProbe], *, is_awaited: bool) -> Iterator[DueProbe]:
        """Those that are not out already, while the lane has room."""
        has_room = is_awaited or self.lanes.has_room(lane)
        for probe in probes:
            if has_room and probe.table not in self._out and probe.table not in self.hanging:
                self._out.add(probe.table)
                yield probe
            else:
                self._back.append(Probed(probe, is_put_off=True))

    def look(self, probe: DueProbe) -> None:
        """In a thread of the lane."""
        try:
            reference = self.runtimes.reference(probe.location, probe.catalog, probe.db_name, probe.table_name)
            self._back.append(Probed(probe, token=self.runtimes.probe(probe.format, reference)))
        except Exception as error:
            self._back.append(Probed(probe, error=error))
        finally:
            self._out.discard(probe.table)
            self.hanging.pop(probe.table, None)

    def leave(self, probes: Sequence[DueProbe], why: str) -> None:
        """The first one hangs; no second thread shall hang at the same table."""
        self.hanging[probes[0].table] = set_aside(why)
        self._back.append(Probed(probes[0], error=TimeoutError(why)))
        self.put_off(probes[1:])

    def put_off(self, probes: Sequence[DueProbe]) -> None:
        self._back.extend(Probed(probe, is_put_off=True) for probe in probes)
        self._out.difference_update([probe.table for probe in probes])

    def take_back(self) -> list[Probed]:
        return [self._back.popleft() for _ in range(len(self._back))]

    def settle(self, back: Sequence[Probed], now: datetime) -> None:
        """Store all that came back, in a few statements."""
        if not back:
            return
        news = [one for one in back if one.is_news]
        tables = self.store.tables.by_ids({one.probe.table for one in news})
        # Who waits for changes is told first: a change that nobody was told of is seen again.
        if tell(self.store.schedules, self.following(tables.values()), now):
            self.on_news()
        tokens = {one.probe.table: one.token for one in news if one.token is not None}
        probed = {one.probe.table: now + next_probe(one) for one in back if not one.is_put_off}
        self.store.probes.finish(probed, tokens, now=now)
        self.store.probes.put_off([one.probe.table for one in back if one.is_put_off], until=now + PUT_OFF)
        self.metrics.looked(len(probed), len(tokens))

    def following(self, tables: Iterable[Table]) -> Iterator[tuple[Action, TableId]]:
        for table in tables:
            for action in table.spec.action_types:
                if self.plugins.follows_changes(table.format, action):
                    yield action, table.id


class Errand:
    """A few tables for one thread, one after the other."""

    __slots__ = ("at", "began", "prober", "probes", "turn")

    def __init__(self, prober: Prober, probes: Sequence[DueProbe], began: float, turn: Turn | None) -> None:
        self.prober, self.probes, self.began, self.turn = prober, probes, began, turn
        self.at = 0

    def run(self) -> None:
        if time.monotonic() - self.began > STALE:
            self.prober.put_off(self.probes)
        else:
            for probe in self.probes:
                self.prober.look(probe)
                self.at += 1
        back(self.turn)

    def left(self, why: str) -> None:
        self.prober.leave(self.probes[self.at :], why)
        back(self.turn)


def by_lane(due: Sequence[DueProbe]) -> Mapping[str, list[DueProbe]]:
    formats: dict[Format, list[DueProbe]] = {}
    for probe in due:
        formats.setdefault(probe.format, []).append(probe)
    return {lane_of(on): probes for on, probes in formats.items()}


def in_parts(probes: Sequence[DueProbe]) -> Iterator[Sequence[DueProbe]]:
    return (probes[start : start + FEW] for start in range(0, len(probes), FEW))


def next_probe(one: Probed) -> timedelta:
    heartbeat = timedelta(milliseconds=one.probe.heartbeat)
    if isinstance(one.error, PluginStuck):
        return min(heartbeat, later(one.probe.table, one.error.again))
    return heartbeat
