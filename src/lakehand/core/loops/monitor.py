# SPDX-License-Identifier: Apache-2.0
"""Monitors every engine on a worker of its own: one that hangs does not delay the operations of another."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from lakehand.core.loops.completer import Completer, mark_unknown
from lakehand.core.loops.draining import Drain
from lakehand.core.loops.engine_monitor import EngineMonitor
from lakehand.core.plugins.pools import WaitGroup, WorkerPools
from lakehand.core.plugins.recovery import Recovery
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.domain.errors import LeaseLost, NotFound
from lakehand.domain.operations import InstanceId, Operation

WAIT = 1.0  # seconds for the rounds of the engines, before the next ones begin


@dataclass(kw_only=True)
class Monitor:
    store: Store
    plugins: Plugins
    metrics: Metrics
    completer: Completer
    recovery: Recovery
    holder: InstanceId
    time_to_live: timedelta
    engine_pools: WorkerPools
    table_pools: WorkerPools
    drain: Drain = field(default_factory=Drain)
    engines: dict[str, EngineMonitor] = field(init=False)
    _orphans_kept: float = 0.0

    def __post_init__(self) -> None:
        self.engines = {
            name: EngineMonitor(
                engine=engine, store=self.store, plugins=self.plugins, metrics=self.metrics, completer=self.completer,
                recovery=self.recovery, holder=self.holder, time_to_live=self.time_to_live, pools=self.table_pools,
                drain=self.drain,
            )
            for name, engine in self.plugins.engines.items()
        }  # fmt: skip

    @property
    def live(self) -> int:
        """How many operations are live here; the loop sets its pace by it."""
        return sum(engine.live for engine in self.engines.values())

    def run_once(self) -> bool:
        """One round of each engine whose last one is over. Never True: the loop's pause sets the pace."""
        group, busy = WaitGroup(), self.engine_pools.busy()
        for name, engine in self.engines.items():
            if name not in busy:
                group.add()
                # An abandoned round is done when its thread ends; nobody waits for it until then.
                self.engine_pools.submit(name, partial(self.run_round, engine, group), lambda _: None)
        if time.monotonic() - self._orphans_kept > self.time_to_live.total_seconds() / 6:
            self.keep_orphans()
            self._orphans_kept = time.monotonic()
        group.wait(WAIT)
        return False

    def run_round(self, engine: EngineMonitor, group: WaitGroup) -> None:
        try:
            engine.run_round()
        finally:
            group.done()

    def keep_orphans(self) -> None:
        """Renew the leases of operations whose engine is off, and record that they wait for it."""
        mine = self.store.operations.held(self.holder)
        orphans = [o for o in mine if o.status.is_live and o.process.engine not in self.plugins.engines]
        leases = {o.id: o.lease.token for o in orphans if o.lease}
        if orphans:
            kept = self.store.operations.renew(leases, now=self.store.clock.now(), time_to_live=self.time_to_live)
            for operation in (o for o in orphans if o.id in kept):
                self.record_orphan(operation)

    def record_orphan(self, operation: Operation) -> None:
        try:
            self.plugins.engine(operation.process.engine)
        except NotFound as error:
            try:
                mark_unknown(self.store, operation, f"it waits for its engine: {error}")
            except LeaseLost:
                self.metrics.lease_lost(operation.process.action)
