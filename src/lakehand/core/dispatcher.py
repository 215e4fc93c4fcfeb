# SPDX-License-Identifier: Apache-2.0
"""Gives pending operations to engines: picks by the rules, claims, admits, stores the intent, then submits."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Secrets, Store
from lakehand.core.runtimes import Runtimes
from lakehand.domain.errors import LakehandError, LeaseLost, Unavailable
from lakehand.domain.events import Event
from lakehand.domain.operations import Attempt, InstanceId, Operation, Status
from lakehand.domain.processes import Drop, Failure, Skip, TableProcess
from lakehand.domain.rules import Choice, Limits, choose
from lakehand.domain.tables import Table
from lakehand.spi.engines import ExecuteEngine, Until, Work

log = logging.getLogger(__name__)
WINDOW = 200  # candidates weighed at once
LOOK_AGAIN = timedelta(seconds=30)
PATIENCE = 30.0
NOTHING = Choice(go=(), wait={})


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    secrets: Secrets
    holder: InstanceId
    hold: timedelta
    limits: Limits
    pool: Executor
    on_submitted: Callable[[], None]
    in_hand: set[int] = field(default_factory=set)  # operations that a pool thread is still admitting

    def run_once(self) -> bool:
        """Dispatch what the rules let go. True when something was moved, so there may be more."""
        now = self.store.clock.now()
        choice = self.choice(now)
        chosen = [o for o in choice.go if o.id not in self.in_hand]
        if not chosen:
            return False
        self.in_hand.update(o.id for o in chosen)
        done, _ = wait([self.pool.submit(self.dispatch_guarded, o) for o in chosen], timeout=PATIENCE)
        return any(f.result() for f in done)

    def choice(self, now: datetime) -> Choice:
        candidates = self.store.operations.candidates(now=now, limit=WINDOW)
        if not candidates:
            return NOTHING
        busy = self.store.operations.busy()
        mine = len([o for o in self.store.operations.held(self.holder) if o.status.is_live])
        places = len(busy) + max(0, sum(e.capacity for e in self.plugins.engines.values()) - mine)
        allowed = min(places, self.limits.running or places)
        if allowed <= len(busy):
            return Choice(go=(), wait={c.operation.id: f"all {allowed} places are taken" for c in candidates})
        return choose(candidates, busy, replace(self.limits, running=allowed), now)

    def waits(self) -> Mapping[int, str]:
        """Why each of the best candidates does not go now."""
        return self.choice(self.store.clock.now()).wait

    def dispatch_guarded(self, operation: Operation) -> bool:
        try:
            return self.dispatch(operation)
        except LeaseLost:
            self.metrics.lease_lost(operation.process.action)
            return False
        except Exception:
            log.exception("an operation could not be dispatched", extra={"operation": operation.id})
            return False
        finally:
            self.in_hand.discard(operation.id)

    def dispatch(self, operation: Operation) -> bool:
        """Claim one operation and bring it to its engine. The engine's mark is read before the lease begins."""
        engine = self.engine_of(operation)
        mark = engine.mark() if engine else None
        now = self.store.clock.now()
        claimed = self.store.operations.claim(operation, holder=self.holder, now=now, hold=self.hold)
        if claimed is None:
            return False
        table = self.store.tables.get(claimed.table)
        answer = self.admit(table, claimed, now)
        if isinstance(answer, Skip):
            self.put_back(claimed, answer, now)
            return False
        if isinstance(answer, Drop):
            self.drop(claimed, answer, now)
            return True
        if isinstance(answer, Failure):
            self.refuse(claimed, answer, now)
            return True
        assert engine is not None
        self.submit(replace(claimed, process=answer), table, engine, Until(mark=mark, hold=self.hold), now)
        return True

    def engine_of(self, operation: Operation) -> ExecuteEngine | None:
        return self.plugins.engines.get(operation.process.engine)

    def admit(self, table: Table, operation: Operation, now: datetime) -> TableProcess | Skip | Drop | Failure:
        """Ask the factory for the process as it must run now; whatever goes wrong here only delays this operation."""
        process = operation.process
        if process.engine not in self.plugins.engines:
            return Failure(
                reason="no-engine", message=f"no engine is called {process.engine!r}: switch it on, then retry"
            )
        try:
            factory = self.plugins.factory(table.format, process.action)
            runtime = self.runtimes.open(table, factory, now=now, left_out=operation.id)
            return factory.admit(runtime, operation)
        except (OSError, LakehandError) as error:
            return Skip(reason=f"not admitted: {error}", look_again=LOOK_AGAIN)

    def put_back(self, operation: Operation, skip: Skip, now: datetime) -> None:
        later = now + (skip.look_again or LOOK_AGAIN)
        waiting = replace(operation, not_before=later, reason=skip.reason)
        changed = skip.reason != operation.reason
        told = Event(kind="operation.waits", message=skip.reason, table=operation.table, operation=operation.id)
        self.store.operations.save(waiting, now=now, event=told if changed else None, release=True)

    def drop(self, operation: Operation, drop: Drop, now: datetime) -> None:
        self.end(operation.moved_to(Status.DROPPED, at=now, reason=drop.reason), "dropped", now)

    def refuse(self, operation: Operation, failure: Failure, now: datetime) -> None:
        failed = operation.moved_to(Status.FAILED, at=now, reason=failure.message)
        self.end(replace(failed, failure=failure), failure.reason, now)

    def end(self, ended: Operation, why: str, now: datetime) -> None:
        """Over before an engine had it."""
        told = Event(kind=f"operation.{ended.status}", message=ended.reason, table=ended.table, operation=ended.id)
        self.store.operations.save(ended, now=now, event=told, release=True)
        self.store.schedules.wake([ended.table], now=now)
        self.metrics.finished(ended.process.action, ended.status, why, timedelta())
        log.info(str(ended.status), extra={"operation": ended.id, "reason": ended.reason})

    def submit(self, operation: Operation, table: Table, engine: ExecuteEngine, until: Until, now: datetime) -> None:
        """Intent before effect: the handle is stored first. If we die in between, the monitor submits it."""
        handle = self.secrets.handle(operation)
        number = operation.run_times + 1
        reason = f"attempt {number} was given to {operation.process.engine}"
        intent = replace(
            operation.moved_to(Status.SUBMITTED, at=now, reason=reason),
            handle=handle, run_times=number, submitted_at=now, started_at=None, progress={}, result={},
        )  # fmt: skip
        attempt = Attempt(
            operation=operation.id,
            number=number,
            handle=handle,
            engine=engine.name,
            instance=self.holder,
            started_at=now,
        )
        told = Event(kind="operation.submitted", message=reason, table=table.id, operation=operation.id)
        saved = self.store.operations.save(intent, now=now, attempt=attempt, event=told)
        give(engine, saved, table, until)
        self.metrics.submitted(operation.process.action, max(now - operation.created_at, timedelta()))
        log.info("submitted", extra={"operation": saved.id, "handle": handle, "action": saved.process.action})
        self.on_submitted()


def give(engine: ExecuteEngine, operation: Operation, table: Table, until: Until) -> None:
    """Hand the work over. An engine that does not answer changes nothing: the monitor gives it again."""
    assert operation.handle is not None
    try:
        engine.submit(work_of(operation, table), operation.handle, until)
    except Unavailable as error:
        log.warning("the engine did not take it yet", extra={"operation": operation.id, "reason": str(error)})


def work_of(operation: Operation, table: Table) -> Work:
    return Work(
        job=operation.process.job,
        parameters=operation.process.parameters,
        table=table.name,
        location=table.location,
        queue=operation.queue,
        operation=operation.id,
    )
