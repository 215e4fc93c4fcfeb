# SPDX-License-Identifier: Apache-2.0
"""Keeps the house: removes old history, says that this instance lives, tends the engines, measures the queues."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.domain.operations import InstanceId
from lakehand.domain.processes import Json

BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Housekeeper:
    store: Store
    metrics: Metrics
    keep_history: timedelta

    def run_once(self) -> bool:
        """Remove one batch of what ended long ago; never anything unfinished. True when there may be more."""
        now = self.store.clock.now()
        before = now - self.keep_history
        removed = self.store.operations.remove_finished(before=before, limit=BATCH)
        forgotten = self.store.events.remove_before(before, limit=BATCH)
        self.store.instances.remove_before(before)
        return BATCH in (removed, forgotten)


@dataclass(frozen=True, kw_only=True)
class Caretaker:
    """Tends the engines and tells how things stand; in every instance, every second or so."""

    store: Store
    plugins: Plugins
    metrics: Metrics
    holder: InstanceId
    host: str
    version: str

    def run_once(self) -> bool:
        now = self.store.clock.now()
        for name, engine in self.plugins.engines.items():
            engine.tend()
            health = engine.health()
            self.metrics.engine(name, up=health.is_up, restarts=health.restarts)
        self.metrics.queue(ages(self.store.operations.queue_depth(now=now), now))
        return False

    def say_alive(self) -> bool:
        detail: dict[str, Json] = {name: engine.health().detail for name, engine in self.plugins.engines.items()}
        now = self.store.clock.now()
        self.store.instances.beat(self.holder, host=self.host, version=self.version, detail=detail, now=now)
        return False


def ages(depth: Mapping[str, tuple[int, datetime | None]], now: datetime) -> Mapping[str, tuple[int, float]]:
    return {queue: (count, (now - since).total_seconds() if since else 0.0) for queue, (count, since) in depth.items()}
