# SPDX-License-Identifier: Apache-2.0
"""Watches the operations that this instance has on one engine: renews their leases, asks it, settles what is over."""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from lakehand.core.completer import Completer, event_of
from lakehand.core.dispatcher import give
from lakehand.core.lanes import Lanes
from lakehand.core.ports import Metrics, Store
from lakehand.core.recovery import Recovery
from lakehand.domain.errors import LakehandError, LeaseLost, RecoverProcessFailed
from lakehand.domain.operations import Handle, InstanceId, Operation, OperationId, Status
from lakehand.spi.engines import EngineState, EngineStatus, ExecuteEngine, LeaseGrant

log = logging.getLogger(__name__)
PROGRESS_EVERY = 2.0  # seconds between two stored progresses of one operation
ASK_AGAIN = 5.0  # seconds between two looks at a table that could not be read
Statuses = Mapping[Handle, EngineStatus]


@dataclass(kw_only=True)
class EngineMonitor:
    """One engine. Its rounds come one after the other, on a lane of their own."""

    engine: ExecuteEngine
    store: Store
    metrics: Metrics
    completer: Completer
    recovery: Recovery
    holder: InstanceId
    time_to_live: timedelta
    settles: Lanes  # asking a table may take long, and renewals may not wait for it
    watching: int = 0  # how many operations are live here
    _renewed: float = field(default=0.0)
    _in_hand: set[OperationId] = field(default_factory=set)  # being settled or recovered by another thread
    _settled: deque[OperationId] = field(default_factory=deque)  # settled; still in hand until the next round
    _not_before: dict[OperationId, float] = field(default_factory=dict)
    _told: dict[OperationId, float] = field(default_factory=dict)

    def round(self) -> None:
        """One look at everything that is held here. An engine that cannot say loses nothing: its leases are kept."""
        heartbeat_token, trouble = self.heartbeat_token()
        self.take_settled_off_hand()
        held = self.held()
        self.watching = len(held)
        if held:
            held = self.renew(held, heartbeat_token, trouble)
            self.watch(held, trouble)
        self.tidy({o.id for o in held})

    def heartbeat_token(self) -> tuple[str | None, str]:
        """The engine's clock, or why it cannot be read."""
        try:
            return self.engine.heartbeat_token(), ""
        except (OSError, LakehandError) as error:
            return None, str(error)

    def take_settled_off_hand(self) -> None:
        """Before the rows are read: whatever is settled after this reading stays in hand for the whole round."""
        while self._settled:
            self._in_hand.discard(self._settled.popleft())

    def held(self) -> Sequence[Operation]:
        mine = self.store.operations.held(self.holder)
        return [o for o in mine if o.status.is_live and o.process.engine == self.engine.name]

    def renew(self, held: Sequence[Operation], heartbeat_token: str | None, trouble: str) -> Sequence[Operation]:
        """The database first, then the engine. The mark was read before both, so no work outlives its lease."""
        if time.monotonic() - self._renewed < self.time_to_live.total_seconds() / 6 and not self.lacks_heartbeat(held):
            return held
        leases = {o.id: o.lease.token for o in held if o.lease}
        kept = self.store.operations.renew(leases, now=self.store.clock.now(), time_to_live=self.time_to_live)
        self._renewed = time.monotonic()
        for lost in (o for o in held if o.id not in kept):
            self.let_go(lost)
        mine = [o for o in held if o.id in kept]
        if mine and not trouble:
            self.renew_there(mine, LeaseGrant(heartbeat_token=heartbeat_token, time_to_live=self.time_to_live))
        return mine

    def renew_there(self, operations: Sequence[Operation], grant: LeaseGrant) -> None:
        try:
            self.engine.renew([o.handle for o in operations if o.handle], grant)
        except (OSError, LakehandError) as error:
            log.warning(
                "the engine was not told of a renewal", extra={"engine": self.engine.name, "reason": str(error)}
            )

    def lacks_heartbeat(self, held: Sequence[Operation]) -> bool:
        """Work given to a cold engine waits for its first renewal with a mark: do not let it wait long."""
        return any(o.status is Status.SUBMITTED for o in held) and time.monotonic() - self._renewed > 1.0

    def let_go(self, operation: Operation) -> None:
        log.warning("the lease was lost", extra={"operation": operation.id})
        self.metrics.lease_lost(operation.process.action)
        self.ask_to_stop(operation)

    def ask_to_stop(self, operation: Operation) -> None:
        if operation.handle is not None:
            try:
                self.engine.cancel(operation.handle)
            except (OSError, LakehandError) as error:
                log.warning("it was not stopped", extra={"operation": operation.id, "reason": str(error)})

    def watch(self, held: Sequence[Operation], trouble: str) -> None:
        statuses: Statuses = {}
        if not trouble:
            try:
                statuses = self.engine.status([o.handle for o in held if o.handle])
            except (OSError, LakehandError) as error:
                trouble = str(error)
        for operation in held:
            self.follow_guarded(operation, self.status_of(operation, statuses, trouble))

    def status_of(self, operation: Operation, statuses: Statuses, trouble: str) -> EngineStatus:
        if trouble:
            return EngineStatus(state=EngineState.UNKNOWN, message=trouble)
        if operation.handle is None:
            return EngineStatus(state=EngineState.ABSENT)
        silent = EngineStatus(state=EngineState.UNKNOWN, message=f"{self.engine.name} said nothing about it")
        return statuses.get(operation.handle, silent)

    def follow_guarded(self, operation: Operation, status: EngineStatus) -> None:
        try:
            self.follow(operation, status)
        except LeaseLost:
            self.let_go(operation)
        except Exception:
            log.exception("an operation could not be followed", extra={"operation": operation.id})

    def follow(self, operation: Operation, status: EngineStatus) -> None:
        if operation.id in self._in_hand or self._not_before.get(operation.id, 0) > time.monotonic():
            return
        is_there = not status.state.is_over and status.state is not EngineState.ABSENT
        if is_there and operation.cancel_requested and operation.status is not Status.CANCELING:
            self.stop(operation)
        elif self.recovery.is_needed(operation):
            self.hand_over(operation, partial(self.recover, operation))
        elif status.state.is_over:
            self.settle_soon(operation, status)
        elif status.state is EngineState.ABSENT:
            self.give_again(operation)
        elif status.state is EngineState.RUNNING:
            self.tell_progress(operation, status)
        elif status.state is EngineState.UNKNOWN:
            self.wonder(operation, f"the engine cannot say: {status.message or 'no answer'}")

    def give_again(self, operation: Operation) -> None:
        """The engine never heard of it: we died before submitting, or it was another instance's, dead with its lease.

        It is given without a mark: the next renewal brings one, so that the work cannot outlive the lease.
        """
        attempts = self.store.operations.attempts(operation.id)
        is_ours = bool(attempts) and attempts[-1].instance == self.holder and attempts[-1].handle == operation.handle
        unrecoverable = self.recovery.failure(operation)
        if is_ours and not operation.cancel_requested and not unrecoverable:
            table = self.store.tables.get(operation.table)
            if not give(
                self.engine, operation, table, LeaseGrant(heartbeat_token=None, time_to_live=self.time_to_live)
            ):
                self.wait(operation)
            return
        message = "its instance went away and its lease has run out" if not is_ours else "canceled before it started"
        lost = EngineStatus(state=EngineState.LOST, message=unrecoverable.message if unrecoverable else message)
        self.settle_soon(operation, lost)

    def settle_soon(self, operation: Operation, status: EngineStatus) -> None:
        self.hand_over(operation, partial(self.settle, operation, status))

    def hand_over(self, operation: Operation, work: "partial[None]") -> None:
        """To a lane of the action's own: asking the table may take long."""
        self._in_hand.add(operation.id)
        lane = f"{operation.process.action} on {self.engine.name}"
        self.settles.post(lane, partial(self.work_guarded, operation, work), partial(self.left, operation))

    def work_guarded(self, operation: Operation, work: "partial[None]") -> None:
        try:
            work()
        except LeaseLost:
            self.let_go(operation)
        except Exception:
            log.exception("an operation could not be settled", extra={"operation": operation.id})
            self.wait(operation)
        self._settled.append(operation.id)

    def left(self, operation: Operation, why: str) -> None:
        log.warning("nobody waits for its table any more", extra={"operation": operation.id, "reason": why})
        self.wait(operation)
        self._settled.append(operation.id)

    def settle(self, operation: Operation, status: EngineStatus) -> None:
        if self.completer.settle(operation, status).status.is_live:
            self.wait(operation)

    def recover(self, operation: Operation) -> None:
        """Before anything else is done with an operation of a former process."""
        now = self.store.clock.now()
        try:
            recovered = self.recovery.recover(self.store.tables.get(operation.table), operation, now)
        except RecoverProcessFailed as error:
            self.recovery.gave_up(operation, error)
            told = event_of(operation, "operation.unrecovered", f"{error}; its table decides what became of it")
            self.store.operations.save(replace(operation, reason=told.message), now=now, event=told)
        except (OSError, LakehandError) as error:
            self.wait(operation)
            self.wonder(operation, f"it cannot be recovered yet: {error}")
        else:
            if recovered.process != operation.process:
                self.store.operations.save(recovered, now=now)

    def wait(self, operation: Operation) -> None:
        self._not_before[operation.id] = time.monotonic() + ASK_AGAIN

    def stop(self, operation: Operation) -> None:
        now = self.store.clock.now()
        reason = "asked to stop"
        moved = operation.moved_to(Status.CANCELING, at=now, reason=reason)
        self.store.operations.save(moved, now=now, event=event_of(operation, "operation.canceling", reason))
        self.ask_to_stop(operation)

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
        running = replace(moved, started_at=operation.started_at or now, progress=status.progress)
        self.store.operations.save(running, now=now, event=event_of(operation, "operation.running", reason))

    def wonder(self, operation: Operation, reason: str) -> None:
        """Unknown is not failed: say so and keep asking; the lease keeps everyone else away."""
        if operation.status is Status.CANCELING or (operation.status is Status.UNKNOWN and operation.reason == reason):
            return
        now, told = self.store.clock.now(), event_of(operation, "operation.unknown", reason)
        if operation.status is Status.UNKNOWN:
            self.store.operations.save(replace(operation, reason=reason), now=now)
        else:
            moved = operation.moved_to(Status.UNKNOWN, at=now, reason=reason)
            self.store.operations.save(moved, now=now, event=told)

    def tidy(self, live: set[OperationId]) -> None:
        for memory in (self._not_before, self._told):
            for gone in [known for known in memory if known not in live]:
                memory.pop(gone, None)
