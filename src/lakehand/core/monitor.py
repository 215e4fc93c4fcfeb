# SPDX-License-Identifier: Apache-2.0
"""Watches the operations that this instance holds: renews their leases, asks the engines, settles what is over."""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakehand.core.dispatcher import give
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.core.settler import Settler, event_of
from lakehand.domain.errors import LeaseLost, NotFound
from lakehand.domain.operations import Handle, InstanceId, Operation, OperationId, Status
from lakehand.spi.engines import EngineState, EngineStatus, ExecuteEngine, Until

log = logging.getLogger(__name__)
PROGRESS_EVERY = 2.0  # seconds between two stored progresses of one operation
ASK_AGAIN = 5.0  # seconds between two looks at a table that could not be read


@dataclass(kw_only=True)
class Monitor:
    store: Store
    plugins: Plugins
    metrics: Metrics
    settler: Settler
    holder: InstanceId
    hold: timedelta
    pool: Executor
    watching: int = 0  # how many operations are live here; the loop paces itself by it
    _renewed: float = field(default=0.0)
    _in_hand: set[OperationId] = field(default_factory=set)  # being settled by a pool thread
    _settled: deque[OperationId] = field(default_factory=deque)  # settled; still in hand until the next round
    _not_before: dict[OperationId, float] = field(default_factory=dict)
    _told: dict[OperationId, float] = field(default_factory=dict)

    def run_once(self) -> bool:
        """One round over all held operations. Never True: the loop's pause sets the pace."""
        marks = {name: engine.mark() for name, engine in self.plugins.engines.items()}
        self.take_settled_off_hand()
        held: Sequence[Operation] = [o for o in self.store.operations.held(self.holder) if o.status.is_live]
        self.watching = len(held)
        if held:
            held = self.renew(held, marks)
            self.watch(held)
        self.tidy({o.id for o in held})
        return False

    def take_settled_off_hand(self) -> None:
        """Before the rows are read: whatever is settled after this reading stays in hand for the whole round."""
        while self._settled:
            self._in_hand.discard(self._settled.popleft())

    def renew(self, held: Sequence[Operation], marks: Mapping[str, str | None]) -> Sequence[Operation]:
        """The database first, then the engine. Marks were read before both, so no work outlives its lease."""
        if time.monotonic() - self._renewed < self.hold.total_seconds() / 6 and not self.is_unmarked(held):
            return held
        leases = {o.id: o.lease.token for o in held if o.lease}
        kept = self.store.operations.renew(leases, now=self.store.clock.now(), hold=self.hold)
        self._renewed = time.monotonic()
        for lost in (o for o in held if o.id not in kept):
            self.let_go(lost)
        mine = [o for o in held if o.id in kept]
        for name, operations in by_engine(mine).items():
            if name in self.plugins.engines:
                until = Until(mark=marks.get(name), hold=self.hold)
                self.plugins.engines[name].renew([o.handle for o in operations if o.handle], until)
        return mine

    def is_unmarked(self, held: Sequence[Operation]) -> bool:
        """Work given to a cold engine waits for its first renewal with a mark: do not let it wait long."""
        return any(o.status is Status.SUBMITTED for o in held) and time.monotonic() - self._renewed > 1.0

    def let_go(self, operation: Operation) -> None:
        log.warning("the lease was lost", extra={"operation": operation.id})
        self.metrics.lease_lost(operation.process.action)
        engine = self.plugins.engines.get(operation.process.engine)
        if engine and operation.handle:
            engine.cancel(operation.handle)

    def watch(self, held: Sequence[Operation]) -> None:
        for name, operations in by_engine(held).items():
            engine = self.plugins.engines.get(name)
            if engine is None:
                continue
            statuses = engine.status([o.handle for o in operations if o.handle])
            for operation in operations:
                self.follow_guarded(operation, engine, statuses)

    def follow_guarded(
        self, operation: Operation, engine: ExecuteEngine, statuses: Mapping[Handle, EngineStatus]
    ) -> None:
        absent = EngineStatus(state=EngineState.ABSENT)
        status = statuses.get(operation.handle, absent) if operation.handle else absent
        try:
            self.follow(operation, engine, status)
        except LeaseLost:
            self.let_go(operation)
        except Exception:
            log.exception("an operation could not be followed", extra={"operation": operation.id})

    def follow(self, operation: Operation, engine: ExecuteEngine, status: EngineStatus) -> None:
        if operation.id in self._in_hand or self._not_before.get(operation.id, 0) > time.monotonic():
            return
        if status.state.is_over:
            self.settle_soon(operation, status)
        elif status.state is EngineState.ABSENT:
            self.give_again(operation, engine)
        elif operation.cancel_requested and operation.status is not Status.CANCELING:
            self.stop(operation, engine)
        elif status.state is EngineState.RUNNING:
            self.tell_progress(operation, status)
        elif status.state is EngineState.UNKNOWN:
            self.wonder(operation, status)

    def give_again(self, operation: Operation, engine: ExecuteEngine) -> None:
        """The engine never heard of it: we died before submitting, or it was another instance's, dead with its lease.

        It is given without a mark: the next renewal brings one, so that the work cannot outlive the lease.
        """
        attempts = self.store.operations.attempts(operation.id)
        is_ours = bool(attempts) and attempts[-1].instance == self.holder and attempts[-1].handle == operation.handle
        if is_ours and not operation.cancel_requested:
            give(engine, operation, self.store.tables.get(operation.table), Until(mark=None, hold=self.hold))
        else:
            message = (
                "its instance went away and its lease has run out" if not is_ours else "canceled before it started"
            )
            self.settle_soon(operation, EngineStatus(state=EngineState.LOST, message=message))

    def settle_soon(self, operation: Operation, status: EngineStatus) -> None:
        """Asking the table may take long, and renewals may not wait for it: a pool thread does it."""
        self._in_hand.add(operation.id)
        self.pool.submit(self.settle_guarded, operation, status)

    def settle_guarded(self, operation: Operation, status: EngineStatus) -> None:
        try:
            settled = self.settler.settle(operation, status)
            if settled.status.is_live:
                self._not_before[operation.id] = time.monotonic() + ASK_AGAIN
        except LeaseLost:
            self.let_go(operation)
        except NotFound as error:
            log.error("nobody can settle it", extra={"operation": operation.id, "reason": str(error)})
            self._not_before[operation.id] = time.monotonic() + ASK_AGAIN
        except Exception:
            log.exception("an operation could not be settled", extra={"operation": operation.id})
            self._not_before[operation.id] = time.monotonic() + ASK_AGAIN
        finally:
            self._settled.append(operation.id)

    def stop(self, operation: Operation, engine: ExecuteEngine) -> None:
        now = self.store.clock.now()
        reason = "asked to stop"
        moved = operation.moved_to(Status.CANCELING, at=now, reason=reason)
        self.store.operations.save(moved, now=now, event=event_of(operation, "operation.canceling", reason))
        if operation.handle:
            engine.cancel(operation.handle)

    def tell_progress(self, operation: Operation, status: EngineStatus) -> None:
        if operation.status is Status.CANCELING:
            return
        now = self.store.clock.now()
        if operation.status is not Status.RUNNING:
            self.save_running(operation, status, now)
        elif (
            status.progress != operation.progress
            and time.monotonic() - self._told.get(operation.id, 0) > PROGRESS_EVERY
        ):
            self._told[operation.id] = time.monotonic()
            self.store.operations.save(replace(operation, progress=status.progress), now=now)

    def save_running(self, operation: Operation, status: EngineStatus, now: datetime) -> None:
        reason = f"attempt {operation.run_times} runs on {operation.process.engine}"
        moved = operation.moved_to(Status.RUNNING, at=now, reason=reason)
        running = replace(moved, started_at=now, progress=status.progress)
        self.store.operations.save(running, now=now, event=event_of(operation, "operation.running", reason))

    def wonder(self, operation: Operation, status: EngineStatus) -> None:
        """Unknown is not failed: say so and keep asking; the lease keeps everyone else away."""
        if operation.status in (Status.UNKNOWN, Status.CANCELING):
            return
        now = self.store.clock.now()
        reason = f"the engine cannot say: {status.message or 'no answer'}"
        moved = operation.moved_to(Status.UNKNOWN, at=now, reason=reason)
        self.store.operations.save(moved, now=now, event=event_of(operation, "operation.unknown", reason))

    def tidy(self, live: set[OperationId]) -> None:
        for memory in (self._not_before, self._told):
            for gone in [known for known in memory if known not in live]:
                memory.pop(gone, None)


def by_engine(operations: Sequence[Operation]) -> Mapping[str, list[Operation]]:
    grouped: dict[str, list[Operation]] = {}
    for operation in operations:
        grouped.setdefault(operation.process.engine, []).append(operation)
    return grouped
