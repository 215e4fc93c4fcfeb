# SPDX-License-Identifier: Apache-2.0
"""Supervises the engines: calls their upkeep, reports that this instance is alive, measures queues and database."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from lakehand.core.plugins.pools import WaitGroup, WorkerPools
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.domain.errors import LakehandError
from lakehand.domain.operations import INSTANCE_STATE, InstanceId, InstanceState
from lakehand.domain.processes import Json
from lakehand.spi.engines import EngineHealth, ExecuteEngine

WAIT = 1.0  # seconds for the upkeep of the engines, before the round ends without the slow ones


@dataclass(frozen=True, kw_only=True)
class EngineSupervisor:
    """Runs the engines' upkeep, abandons overdue calls, and reports metrics; in every instance, every second or so."""

    store: Store
    plugins: Plugins
    metrics: Metrics
    holder: InstanceId
    host: str
    version: str
    pools: Sequence[WorkerPools]  # of all purposes; the engines are tended on the first
    state_of_drain: Callable[[], str] = lambda: InstanceState.SERVING
    healths: dict[str, EngineHealth] = field(default_factory=dict)  # the last report of each engine

    def run_once(self) -> bool:
        for pools in self.pools:
            pools.abandon_overdue()
        group, busy = WaitGroup(), self.pools[0].busy()
        for name, engine in self.plugins.engines.items():
            if f"tends {name}" not in busy:
                group.add()
                self.pools[0].submit(f"tends {name}", partial(self.tend, name, engine, group), lambda _: None)
        self.metrics.plugins(self.plugins.listing())
        now = self.read_clock()
        self.metrics.queue(ages(self.store.operations.queue_depth(now=now), now))
        group.wait(WAIT)
        return False

    def read_clock(self) -> datetime:
        """The database's time; how long that takes is measured, and whether the database answers at all."""
        began, is_up = time.monotonic(), False
        try:
            now = self.store.clock.now()
            is_up = not self.store.problem()
        finally:
            self.metrics.database(time.monotonic() - began, is_up=is_up)
        return now

    def tend(self, name: str, engine: ExecuteEngine, group: WaitGroup) -> None:
        try:
            engine.tend()
            self.healths[name] = engine.health()
        except (OSError, LakehandError) as error:
            self.healths[name] = EngineHealth(is_up=False, detail=str(error))
        health = self.healths[name]
        self.metrics.engine(name, up=health.is_up, restarts=health.restarts)
        group.done()

    def report_alive(self, state: InstanceState | None = None) -> bool:
        detail: dict[str, Json] = {name: health.detail for name, health in list(self.healths.items())}
        detail[INSTANCE_STATE] = str(state or self.state_of_drain())
        now = self.store.clock.now()
        self.store.instances.heartbeat(self.holder, host=self.host, version=self.version, detail=detail, now=now)
        return False


def ages(depth: Mapping[str, tuple[int, datetime | None]], now: datetime) -> Mapping[str, tuple[int, float]]:
    return {queue: (count, (now - since).total_seconds() if since else 0.0) for queue, (count, since) in depth.items()}
