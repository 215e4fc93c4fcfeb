# SPDX-License-Identifier: Apache-2.0
"""Monitors every engine on a worker of its own: renews leases, reads statuses, completes attempts.

One engine that hangs does not delay the operations of another.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from lakehand.core.loops.completer import Completer, external_id_of, mark_unknown
from lakehand.core.loops.draining import Drain
from lakehand.core.plugins.pools import WaitGroup, WorkerPools
from lakehand.core.plugins.recovery import Recovery
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.domain.errors import LakehandError, LeaseLost, NotFound, RecoverProcessFailed
from lakehand.domain.events import operation_event
from lakehand.domain.operations import ExternalId, Handle, InstanceId, Operation, OperationId, Status
from lakehand.spi.engines import EngineState, EngineStatus, ExecuteEngine, LeaseGrant

log = logging.getLogger(__name__)
PROGRESS_EVERY = 2.0  # seconds between two stored progresses of one operation
RETRY = 5.0  # seconds between two attempts at a table that could not be read, or an engine that took no work
Statuses = Mapping[Handle, EngineStatus]
WAIT = 1.0  # seconds for the rounds of the engines, before the next ones begin


@dataclass(kw_only=True)
class EngineMonitor:
    """One engine. Its rounds come one after the other."""

    engine: ExecuteEngine
    store: Store
    plugins: Plugins
    metrics: Metrics
    completer: Completer
    recovery: Recovery
    holder: InstanceId
    time_to_live: timedelta
    pools: WorkerPools  # reading a table may take long, and renewals must not wait for it
    drain: Drain = field(default_factory=Drain)
    live: int = 0
    _renewed: float = field(default=0.0)
    _in_flight: set[OperationId] = field(default_factory=set)  # being completed or recovered by another thread
    _landed: deque[OperationId] = field(default_factory=deque)  # done; still in flight until the next round
    _not_before: dict[OperationId, float] = field(default_factory=dict)
    _progress_stored: dict[OperationId, float] = field(default_factory=dict)
    _external_stored: dict[OperationId, ExternalId | None] = field(default_factory=dict)

    def run_round(self) -> None:
        """Check everything that is held here. If the engine does not answer, the leases are still renewed."""
        heartbeat_token, trouble = self.heartbeat_token()
        # Before the rows are read: an operation that is completed after the reading stays in flight for this round.
        while self._landed:
            self._in_flight.discard(self._landed.popleft())
        mine = self.store.operations.held(self.holder)
        held: Sequence[Operation] = [o for o in mine if o.status.is_live and o.process.engine == self.engine.name]
        self.live = len(held)
        if held:
            held = self.renew(held, heartbeat_token, trouble)
            self.follow_all(held, trouble)
        else:
            self._renewed = time.monotonic()  # the next operation comes with a fresh lease
        self.forget_others({o.id for o in held})

    def heartbeat_token(self) -> tuple[str | None, str]:
        """The engine's token, or why it cannot be read."""
        try:
            return self.engine.heartbeat_token(), ""
        except (OSError, LakehandError) as error:
            return None, str(error)

    def renew(self, held: Sequence[Operation], heartbeat_token: str | None, trouble: str) -> Sequence[Operation]:
        """The database first, then the engine. The token was read before both, so no work outlives its lease."""
        age, now = time.monotonic() - self._renewed, self.store.clock.estimate()
        # Work on a cold engine waits for its first renewal with a token: renew soon.
        has_new = age > 1.0 and any(o.status is Status.SUBMITTED for o in held)
        is_short = any(o.lease and o.lease.until - now < self.time_to_live * 2 / 3 for o in held)
        if age < self.time_to_live.total_seconds() / 6 and not has_new and not is_short:
            return held
        leases = {o.id: o.lease.token for o in held if o.lease}
        kept = self.store.operations.renew(leases, now=self.store.clock.now(), time_to_live=self.time_to_live)
        self._renewed = time.monotonic()
        for lost in (o for o in held if o.id not in kept):
            self.give_up_lease(lost)
        mine = [o for o in held if o.id in kept]
        if mine and not trouble:
            self.renew_on_engine(mine, LeaseGrant(heartbeat_token=heartbeat_token, time_to_live=self.time_to_live))
        return mine

    def renew_on_engine(self, operations: Sequence[Operation], grant: LeaseGrant) -> None:
        try:
            self.engine.renew([o.handle for o in operations if o.handle], grant)
        except (OSError, LakehandError) as error:
            log.warning("the engine missed a renewal", extra={"engine": self.engine.name, "reason": str(error)})

    def give_up_lease(self, operation: Operation) -> None:
        log.warning("the lease was lost", extra={"operation": operation.id})
        self.metrics.lease_lost(operation.process.action)
        self.cancel_on_engine(operation)

    def cancel_on_engine(self, operation: Operation) -> bool:
        """True if the engine took the request."""
        if operation.handle is not None:
            try:
                self.engine.cancel(operation.handle)
            except (OSError, LakehandError) as error:
                log.warning("it was not stopped", extra={"operation": operation.id, "reason": str(error)})
                return False
        return True

    def follow_all(self, held: Sequence[Operation], trouble: str) -> None:
        statuses: Statuses = {}
        if not trouble:
            try:
                statuses = self.engine.status([o.handle for o in held if o.handle])
            except (OSError, LakehandError) as error:
                trouble = str(error)
        for operation in held:
            try:
                status = self.status_of(operation, statuses, trouble)
                self.take_back_if_draining(operation, status)
                self.follow(operation, status)
            except LeaseLost:
                self.give_up_lease(operation)
            except Exception:
                log.exception("an operation could not be followed", extra={"operation": operation.id})

    def status_of(self, operation: Operation, statuses: Statuses, trouble: str) -> EngineStatus:
        if trouble:
            return EngineStatus(state=EngineState.UNKNOWN, message=trouble)
        if operation.handle is None:
            return EngineStatus(state=EngineState.ABSENT)
        silent = EngineStatus(state=EngineState.UNKNOWN, message=f"{self.engine.name} said nothing about it")
        return statuses.get(operation.handle, silent)

    def follow(self, operation: Operation, status: EngineStatus) -> None:
        if operation.id in self._in_flight or self._not_before.get(operation.id, 0) > time.monotonic():
            return
        is_there = not status.state.is_over and status.state is not EngineState.ABSENT
        if is_there and operation.cancel_requested and operation.status is not Status.CANCELING:
            self.cancel(operation)
        elif self.recovery.is_needed(operation):
            self.start(operation, partial(self.recover, operation))
        elif status.state.is_over:
            self.start(operation, partial(self.complete, operation, status))
        elif status.state is EngineState.ABSENT:
            self.resubmit(operation)
        elif status.state is EngineState.RUNNING:
            self.record_progress(operation, status)
        elif status.state is EngineState.UNKNOWN:
            mark_unknown(self.store, operation, f"the engine cannot say: {status.message or 'no answer'}")

    def take_back_if_draining(self, operation: Operation, status: EngineStatus) -> None:
        """Ask the engine to stop it, and keep its lease: it is handed over when the engine says that it is over."""
        is_there = not status.state.is_over and status.state is not EngineState.ABSENT
        if not is_there or not self.drain.must_stop(operation.id, status.state):
            return
        self.drain.asked(operation.id, status.state)
        if not self.cancel_on_engine(operation):
            self.drain.asked(operation.id, EngineState.ABSENT)  # ask again

    def resubmit(self, operation: Operation) -> None:
        """The engine does not know it: we died before submitting, or it was another instance's, dead with its lease.

        It is submitted without a token: the next renewal brings one, so that the work cannot outlive the lease.
        """
        attempts = self.store.operations.attempts(operation.id)
        is_ours = bool(attempts) and attempts[-1].instance == self.holder and attempts[-1].handle == operation.handle
        unrecoverable = self.recovery.failure(operation)
        if is_ours and self.drain.is_on and not self.is_grant_over(operation):
            return
        if is_ours and not operation.cancel_requested and not unrecoverable and not self.drain.is_on:
            grant = LeaseGrant(heartbeat_token=None, time_to_live=self.time_to_live)
            if self.plugins.submit(operation, self.store.tables.get(operation.table), grant):
                self.metrics.submitted(operation.process.action, operation.waited(self.store.clock.estimate()))
            else:
                self.retry_later(operation)
            return
        if self.drain.is_on:
            self.drain.asked(operation.id, EngineState.ABSENT)
        message = "it did not start" if is_ours else "its instance went away and its lease has run out"
        lost = EngineStatus(state=EngineState.LOST, message=unrecoverable.message if unrecoverable else message)
        self.start(operation, partial(self.complete, operation, lost))

    def is_grant_over(self, operation: Operation) -> bool:
        """True if work that a hanging thread may still submit would not run any more."""
        given = operation.submitted_at
        return given is None or self.store.clock.estimate() - given > self.time_to_live

    def start(self, operation: Operation, work: Callable[[], None]) -> None:
        """On a pool of the action's own."""
        self._in_flight.add(operation.id)
        pool = f"{operation.process.action} on {self.engine.name}"
        self.pools.submit(pool, partial(self.run, operation, work), partial(self.abandoned, operation))

    def run(self, operation: Operation, work: Callable[[], None]) -> None:
        try:
            work()
        except LeaseLost:
            self.give_up_lease(operation)
        except Exception:
            log.exception("an operation could not be completed", extra={"operation": operation.id})
            self.retry_later(operation)
        self._landed.append(operation.id)

    def abandoned(self, operation: Operation, why: str) -> None:
        log.warning("its table does not answer", extra={"operation": operation.id, "reason": why})
        self.retry_later(operation)
        self._landed.append(operation.id)

    def complete(self, operation: Operation, status: EngineStatus) -> None:
        if self.completer.complete(operation, status).status.is_live:
            self.retry_later(operation)

    def recover(self, operation: Operation) -> None:
        """Done first with an operation of a former process."""
        now = self.store.clock.estimate()
        try:
            recovered = self.recovery.recover(self.store.tables.get(operation.table), operation, now)
        except RecoverProcessFailed as error:
            self.recovery.give_up(operation, error)
            event = operation_event(operation, "operation.unrecovered", f"{error}; its table decides what became of it")
            self.store.operations.save(replace(operation, reason=event.message), now=now, event=event)
        except (OSError, LakehandError) as error:
            self.retry_later(operation)
            mark_unknown(self.store, operation, f"it cannot be recovered yet: {error}")
        else:
            if recovered.process != operation.process:
                self.store.operations.save(recovered, now=now)

    def retry_later(self, operation: Operation) -> None:
        self._not_before[operation.id] = time.monotonic() + RETRY

    def cancel(self, operation: Operation) -> None:
        now, reason = self.store.clock.estimate(), "asked to stop"
        moved = operation.moved_to(Status.CANCELING, at=now, reason=reason)
        event = operation_event(operation, "operation.canceling", reason)
        self.store.operations.save(moved, now=now, event=event)
        self.cancel_on_engine(operation)

    def record_progress(self, operation: Operation, status: EngineStatus) -> None:
        now, external = self.store.clock.estimate(), external_id_of(status)
        if operation.status not in (Status.CANCELING, Status.RUNNING):
            reason = f"attempt {operation.run_times} runs on {operation.process.engine}"
            moved = operation.moved_to(Status.RUNNING, at=now, reason=reason)
            running = replace(moved, started_at=operation.started_at or now, progress=status.progress)
            event = operation_event(operation, "operation.running", reason)
            self.store.operations.save(running, now=now, event=event, external=external)
            self._external_stored[operation.id] = external
        elif operation.status is Status.RUNNING and self.is_news(operation, status, external):
            self._progress_stored[operation.id] = time.monotonic()
            self.store.operations.save(replace(operation, progress=status.progress), now=now, external=external)
            self._external_stored[operation.id] = external

    def is_news(self, operation: Operation, status: EngineStatus, external: ExternalId | None) -> bool:
        if external is not None and external != self._external_stored.get(operation.id):
            return True
        age = time.monotonic() - self._progress_stored.get(operation.id, 0)
        return status.progress != operation.progress and age > PROGRESS_EVERY

    def forget_others(self, live: set[OperationId]) -> None:
        for memory in (self._not_before, self._progress_stored, self._external_stored):
            for gone in [known for known in memory if known not in live]:
                memory.pop(gone, None)


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
