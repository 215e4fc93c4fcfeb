# SPDX-License-Identifier: Apache-2.0
"""Supervises the engines: calls their upkeep, reports that this instance is alive, measures the queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from lakehand.core.lanes import Lanes
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.core.turns import Turn
from lakehand.domain.errors import LakehandError
from lakehand.domain.operations import InstanceId
from lakehand.domain.processes import Json
from lakehand.spi.engines import EngineHealth, ExecuteEngine

PATIENCE = 1.0  # seconds for the engines to be tended, before the turn is over without them


@dataclass(frozen=True, kw_only=True)
class EngineSupervisor:
    """Tends the engines, leaves calls that hang, and tells how things stand; in every instance, every second or so."""

    store: Store
    plugins: Plugins
    metrics: Metrics
    holder: InstanceId
    host: str
    version: str
    lanes: Sequence[Lanes]  # of all purposes; the engines are tended on the first
    healths: dict[str, EngineHealth] = field(default_factory=dict)  # what each engine last said

    def run_once(self) -> bool:
        for lanes in self.lanes:
            lanes.check()
        turn, owing = Turn(), self.lanes[0].busy()
        for name, engine in self.plugins.engines.items():
            if f"tends {name}" not in owing:
                turn.expect()
                self.lanes[0].post(f"tends {name}", partial(self.tend, name, engine, turn), lambda _: None)
        self.metrics.plugins(self.plugins.listing())
        now = self.store.clock.now()
        self.metrics.queue(ages(self.store.operations.queue_depth(now=now), now))
        turn.wait(PATIENCE)
        return False

    def tend(self, name: str, engine: ExecuteEngine, turn: Turn) -> None:
        try:
            engine.tend()
            self.healths[name] = engine.health()
        except (OSError, LakehandError) as error:
            self.healths[name] = EngineHealth(is_up=False, detail=str(error))
        health = self.healths[name]
        self.metrics.engine(name, up=health.is_up, restarts=health.restarts)
        turn.back()

    def say_alive(self) -> bool:
        said = list(self.healths.items())
        detail: dict[str, Json] = {name: health.detail for name, health in said}
        now = self.store.clock.now()
        self.store.instances.beat(self.holder, host=self.host, version=self.version, detail=detail, now=now)
        return False


def ages(depth: Mapping[str, tuple[int, datetime | None]], now: datetime) -> Mapping[str, tuple[int, float]]:
    return {queue: (count, (now - since).total_seconds() if since else 0.0) for queue, (count, since) in depth.items()}
