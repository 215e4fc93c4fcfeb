# SPDX-License-Identifier: Apache-2.0
"""Has every engine watched, each on a lane of its own: one that hangs keeps the operations of no other waiting."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from lakehand.core.completer import Completer, event_of
from lakehand.core.engine_monitor import EngineMonitor
from lakehand.core.lanes import Lanes
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.core.recovery import Recovery
from lakehand.core.turns import Turn
from lakehand.domain.errors import LeaseLost, NotFound
from lakehand.domain.operations import InstanceId, Operation, Status

PATIENCE = 1.0  # seconds for the rounds that are not over yet, before the next ones begin


@dataclass(kw_only=True)
class Monitor:
    store: Store
    plugins: Plugins
    metrics: Metrics
    completer: Completer
    recovery: Recovery
    holder: InstanceId
    time_to_live: timedelta
    rounds: Lanes
    settles: Lanes
    watches: dict[str, EngineMonitor] = field(init=False)
    _cared: float = 0.0

    def __post_init__(self) -> None:
        self.watches = {name: self.watch_of(name) for name in self.plugins.engines}

    def watch_of(self, name: str) -> EngineMonitor:
        return EngineMonitor(
            engine=self.plugins.engines[name], store=self.store, metrics=self.metrics, completer=self.completer,
            recovery=self.recovery, holder=self.holder, time_to_live=self.time_to_live, settles=self.settles,
        )  # fmt: skip

    @property
    def watching(self) -> int:
        """How many operations are live here; the loop paces itself by it."""
        return sum(watch.watching for watch in self.watches.values())

    def run_once(self) -> bool:
        """One round of each engine whose last one is over. Never True: the loop's pause sets the pace."""
        turn, owing = Turn(), self.rounds.busy()
        for name, watch in self.watches.items():
            if name not in owing:
                turn.expect()
                self.rounds.post(name, partial(self.round, watch, turn), partial(self.left, turn))
        if time.monotonic() - self._cared > self.time_to_live.total_seconds() / 6:
            self.care_for_orphans()
            self._cared = time.monotonic()
        turn.wait(PATIENCE)
        return False

    def round(self, watch: EngineMonitor, turn: Turn) -> None:
        try:
            watch.round()
        finally:
            turn.back()

    def left(self, _turn: Turn, _why: str) -> None:
        """The thread that hangs gives its turn back when it ends; nobody waits for it until then."""

    def care_for_orphans(self) -> None:
        """Operations of an engine that is switched off are kept, and say so."""
        mine = self.store.operations.held(self.holder)
        orphans = [o for o in mine if o.status.is_live and o.process.engine not in self.plugins.engines]
        if orphans:
            leases = {o.id: o.lease.token for o in orphans if o.lease}
            kept = self.store.operations.renew(leases, now=self.store.clock.now(), time_to_live=self.time_to_live)
            self.tell([o for o in orphans if o.id in kept])

    def tell(self, orphans: Sequence[Operation]) -> None:
        for operation in orphans:
            try:
                self.plugins.engine(operation.process.engine)
            except NotFound as error:
                self.say(operation, f"it waits for its engine: {error}")

    def say(self, operation: Operation, reason: str) -> None:
        if operation.reason == reason or operation.status is Status.CANCELING:
            return
        now, told = self.store.clock.now(), event_of(operation, "operation.unknown", reason)
        moved = replace(operation, reason=reason)
        if operation.status is not Status.UNKNOWN:
            moved = operation.moved_to(Status.UNKNOWN, at=now, reason=reason)
        try:
            self.store.operations.save(moved, now=now, event=told)
        except LeaseLost:
            self.metrics.lease_lost(operation.process.action)
