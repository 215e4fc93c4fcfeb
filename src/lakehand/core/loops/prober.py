# SPDX-License-Identifier: Apache-2.0
"""Finds changes that no writer reported: probes each table at its heartbeat, and wakes its change-driven actions.

Most tables have not changed, so this path is the busiest: one row and one cheap probe for each table, whatever number
of actions it has. Safe in every instance at once.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehand.core.loops.draining import Drain
from lakehand.core.loops.evaluations import (
    DEFERRAL,
    STALE,
    log_readability,
    reading_pool,
    time_to_wait,
    unreadable_text,
)
from lakehand.core.plugins.pools import Task, WaitGroup, WorkerPools, set_aside
from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes
from lakehand.core.ports import DueProbe, Metrics, Store
from lakehand.domain.actions import Action
from lakehand.domain.errors import TryLater
from lakehand.domain.tables import Table, TableId

BATCH = 2000
FEW = 16  # tables that a thread probes in a row
TIME_TO_LIVE = timedelta(minutes=2)
WAIT = 1.0  # seconds for the probes of a batch, before the others are stored without the slow ones


class ProbeResult(NamedTuple):
    """A change token, or why there is none."""

    probe: DueProbe
    token: str | None = None
    error: Exception | None = None
    is_deferred: bool = False

    @property
    def wakes(self) -> bool:
        """True if change-driven actions must be evaluated: the table changed, or could not be read."""
        return not self.is_deferred and self.token != self.probe.token

    @property
    def next_probe(self) -> timedelta:
        heartbeat = timedelta(milliseconds=self.probe.heartbeat)
        if isinstance(self.error, TryLater):
            return min(heartbeat, time_to_wait(self.probe.table, self.error))
        return heartbeat


@dataclass(kw_only=True)
class Prober:
    """Probes tables on the pools of their formats, a few per task, and stores the results in batches."""

    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    pools: WorkerPools  # shared with the coordinator, so that no second thread is sent to a table where one hangs
    on_change: Callable[[], None]
    drain: Drain = field(default_factory=Drain)
    _results: deque[ProbeResult] = field(default_factory=deque)
    _group: WaitGroup = field(default_factory=WaitGroup)  # of the batch that is in flight
    _in_flight: set[TableId] = field(default_factory=set)

    def run_once(self) -> bool:
        """Start one batch, and store the results of the one before. True when the batch was full.

        Then there may be more, and its results are stored while the next one is in flight.
        """
        now = self.store.clock.estimate()
        due = self.claim_due(now)
        self._group.wait(WAIT)
        finished = self.take_finished()
        self._group = self.start(due) if due else WaitGroup()
        self.store_results(finished, now)
        if len(due) >= BATCH:
            return True
        self._group.wait(WAIT)
        self._group = WaitGroup()
        self.store_results(self.take_finished(), now)
        return False

    def claim_due(self, now: datetime) -> Sequence[DueProbe]:
        if self.drain.is_on:
            return ()
        return self.store.probes.claim_due(now=now, time_to_live=TIME_TO_LIVE, limit=BATCH)

    @property
    def unfinished(self) -> int:
        """Probes that are under way or not stored yet, without those that hang."""
        return len(self._in_flight - self.pools.hanging.keys()) + len(self._results)

    def start(self, due: Sequence[DueProbe]) -> WaitGroup:
        """Nobody waits for a pool that is still busy."""
        group, began, busy = WaitGroup(), time.monotonic(), self.pools.busy()
        for pool, probes in by_pool(due).items():
            own = WaitGroup() if pool in busy else group
            ready = list(self.claim_flights(probes, has_room=pool not in busy or self.pools.has_room(pool)))
            batches = [ProbeBatch(self, few, began, own) for few in in_parts(ready)]
            own.add(len(batches))
            self.pools.submit_all(pool, [Task(batch.run, batch.abandoned) for batch in batches])
        return group

    def claim_flights(self, probes: Sequence[DueProbe], *, has_room: bool) -> Iterator[DueProbe]:
        """Tables that no thread is busy with, while the pool has room; the others are deferred."""
        for probe in probes:
            if has_room and probe.table not in self._in_flight and probe.table not in self.pools.hanging:
                self._in_flight.add(probe.table)
                yield probe
            else:
                self._results.append(ProbeResult(probe, is_deferred=True))

    def probe(self, probe: DueProbe) -> None:
        try:
            reference = self.runtimes.reference(probe.location, probe.catalog, probe.db_name, probe.table_name)
            self._results.append(ProbeResult(probe, token=self.runtimes.probe(probe.format, reference)))
        except Exception as error:
            self._results.append(ProbeResult(probe, error=error))
        finally:
            self._in_flight.discard(probe.table)
            self.pools.hanging.pop(probe.table, None)

    def abandon(self, probes: Sequence[DueProbe], why: str) -> None:
        """The first one hangs, the others were not reached."""
        self.pools.hanging[probes[0].table] = set_aside(why)
        self._results.append(ProbeResult(probes[0], error=TimeoutError(why)))
        self.defer(probes[1:])

    def defer(self, probes: Sequence[DueProbe]) -> None:
        self._results.extend(ProbeResult(probe, is_deferred=True) for probe in probes)
        self._in_flight.difference_update([probe.table for probe in probes])

    def take_finished(self) -> list[ProbeResult]:
        return [self._results.popleft() for _ in range(len(self._results))]

    def store_results(self, results: Sequence[ProbeResult], now: datetime) -> None:
        if not results:
            return
        waking = [one for one in results if one.wakes]
        tables = self.store.tables.by_ids({one.probe.table for one in waking})
        woken = list(self.change_driven(tables.values()))
        tokens = {one.probe.table: one.token for one in waking if one.token is not None}
        next_due = {one.probe.table: now + one.next_probe for one in results if not one.is_deferred}
        problems = {one.probe.table: unreadable_text(one.probe.location, one.error) for one in results if one.error}
        self.store.probes.finish(next_due, tokens, woken=woken, problems=problems, now=now)
        for one in results:
            if not (one.is_deferred or one.probe.problem_stays):
                log_readability(one.probe.table, one.probe.problem, problems.get(one.probe.table, ""))
        self.store.probes.defer([one.probe.table for one in results if one.is_deferred], until=now + DEFERRAL)
        self.metrics.probed(len(next_due), len(tokens))
        if woken:
            self.on_change()

    def change_driven(self, tables: Iterable[Table]) -> Iterator[tuple[TableId, Action]]:
        for table in tables:
            for action in table.spec.action_types:
                if self.plugins.follows_changes(table.format, action):
                    yield table.id, action


class ProbeBatch:
    """A few tables for one thread, one after the other."""

    __slots__ = ("at", "began", "group", "prober", "probes")

    def __init__(self, prober: Prober, probes: Sequence[DueProbe], began: float, group: WaitGroup) -> None:
        self.prober, self.probes, self.began, self.group = prober, probes, began, group
        self.at = 0

    def run(self) -> None:
        if time.monotonic() - self.began > STALE:
            self.prober.defer(self.probes)
        else:
            for probe in self.probes:
                self.prober.probe(probe)
                self.at += 1
        self.group.done()

    def abandoned(self, why: str) -> None:
        self.prober.abandon(self.probes[self.at :], why)
        self.group.done()


def by_pool(due: Sequence[DueProbe]) -> Mapping[str, list[DueProbe]]:
    pools: dict[str, list[DueProbe]] = {}
    for probe in due:
        pools.setdefault(reading_pool(probe.format), []).append(probe)
    return pools


def in_parts(probes: Sequence[DueProbe]) -> Iterator[Sequence[DueProbe]]:
    return (probes[start : start + FEW] for start in range(0, len(probes), FEW))
