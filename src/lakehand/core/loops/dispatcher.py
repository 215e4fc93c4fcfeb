# SPDX-License-Identifier: Apache-2.0
"""Gives pending operations to engines: picks by the rules, claims, admits, stores the intent, then submits."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from lakehand.core.loops.draining import Drain
from lakehand.core.loops.telemetry import NoObserver, RunObserver
from lakehand.core.plugins.pools import WaitGroup, WorkerPools
from lakehand.core.plugins.recovery import Recovery, unrecoverable
from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes
from lakehand.core.ports import IdSource, Metrics, Store
from lakehand.domain.errors import LakehandError, LeaseLost, RecoverProcessFailed, TryLater
from lakehand.domain.events import operation_event
from lakehand.domain.locations import BOUNDARY, Boundary
from lakehand.domain.operations import Attempt, InstanceId, Operation, OperationId, Status, taken_off
from lakehand.domain.processes import Drop, Failure, Remedy, Skip, TableProcess
from lakehand.domain.routing import (
    AUTO,
    ENGINE_PROPERTY,
    LARGE,
    LARGE_PROPERTY,
    RoutingPolicy,
    choice_of,
    read_policy,
    route,
)
from lakehand.domain.row_checks import PROPERTY, is_only_verifying, mode_of, row_mode, with_mode
from lakehand.domain.rules import Busy, Candidate, Choice, DispatchQueue, Limits, Usage, choose
from lakehand.domain.tables import Table
from lakehand.spi.config import TableConfig
from lakehand.spi.engines import LeaseGrant
from lakehand.spi.runtimes import TableRuntime

log = logging.getLogger(__name__)
WINDOW = 200  # candidates weighed at once: the best of those that no limit holds back when the round begins
LOOK_AGAIN = timedelta(seconds=30)
DRAINING = Skip(reason="its instance is draining", look_again=timedelta(milliseconds=1))
WAIT = 2.0  # seconds for the operations of a round, before the next round
NOTHING = Choice(go=(), wait={})
Admission = TableProcess | Skip | Drop | Failure


@dataclass(slots=True, kw_only=True)
class InFlight:
    """An operation that a thread brings to its engine."""

    candidate: Candidate
    group: WaitGroup
    claimed: Operation | None = None  # set from the claim until the intent is stored

    @property
    def as_busy(self) -> Busy:
        operation = self.candidate.operation
        return Busy(
            table=operation.table, slot=operation.slot, queue=operation.queue, owner=operation.owner,
            format=str(self.candidate.format), action=str(operation.process.action), engine=operation.process.engine,
        )  # fmt: skip


class EngineOff(NamedTuple):
    why: str
    until: datetime  # then it is tried again


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    ids: IdSource
    recovery: Recovery
    holder: InstanceId
    time_to_live: timedelta
    limits: Limits
    pools: WorkerPools
    on_submitted: Callable[[], None]
    observer: RunObserver = field(default_factory=NoObserver)
    drain: Drain = field(default_factory=Drain)
    in_flight: dict[OperationId, InFlight] = field(default_factory=dict)
    off: dict[str, EngineOff] = field(default_factory=dict)  # engines that did not answer

    def run_once(self) -> bool:
        """Dispatch what the rules allow. True when something was moved, so there may be more."""
        if self.drain.is_on:
            return False
        queue = self.queue()
        known = {c.operation.id: c for c in queue.candidates}
        group, busy = WaitGroup(), self.pools.busy()
        for operation in self.choose(queue).go:
            self.start(known[operation.id], group, busy)
        group.wait(WAIT)
        return group.changes > 0

    def waits(self, table: Table, operations: Sequence[Operation]) -> Mapping[int, str]:
        """Why each of these operations of the table is not dispatched now, wherever it is in the queue."""
        if table.paused or table.removed:
            return {}
        queue, now = self.queue(), self.store.clock.estimate()
        known = {c.operation.id for c in queue.candidates} | self.in_flight.keys()
        ready = [o for o in operations if o.id not in known and is_ready(o, now)]
        more = [Candidate(operation=one, format=table.format) for one in ready]
        return self.choose(replace(queue, candidates=[*queue.candidates, *more])).wait

    def queue(self) -> DispatchQueue:
        queue = self.store.operations.dispatch_queue(
            now=self.store.clock.estimate(), limit=WINDOW, age_step=self.limits.age_step,
            close=lambda busy: Usage(*self.weigh(busy)).closed,
        )  # fmt: skip
        return replace(queue, candidates=[c for c in queue.candidates if c.operation.id not in self.in_flight])

    def choose(self, queue: DispatchQueue) -> Choice:
        if not queue.candidates:
            return NOTHING
        busy, limits = self.weigh(queue.busy)
        now = self.store.clock.estimate()
        return choose(queue.candidates, busy, limits, now, has_more_owners=queue.has_more_owners)

    def weigh(self, live: Sequence[Busy]) -> tuple[Sequence[Busy], Limits]:
        """What runs, with what is in flight, and the limits with the capacity of this instance's engines."""
        slots = {b.slot for b in live}
        flying = [b for b in (one.as_busy for one in list(self.in_flight.values())) if b.slot not in slots]
        busy = [*live, *flying]
        mine = Counter(b.engine for b in [*(b for b in live if b.holder == self.holder), *flying])
        capacities = {name: engine.capacity for name, engine in self.plugins.engines.items()}
        capacity = len(busy) + max(0, sum(capacities.values()) - mine.total())
        everywhere = Counter(b.engine for b in busy)
        engines = {name: everywhere[name] + max(0, most - mine[name]) for name, most in capacities.items()}
        now = self.store.clock.estimate()
        off = {name: one.why for name, one in list(self.off.items()) if one.until > now}
        running = min(capacity, self.limits.running or capacity)
        return busy, replace(self.limits, running=running, is_shut=not running, engines=engines, engines_off=off)

    def start(self, candidate: Candidate, group: WaitGroup, busy: frozenset[str]) -> None:
        """Submit it to the pool of its factory and engine. Nobody waits for a pool that is still busy."""
        process = candidate.operation.process
        factory = self.plugins.factories.get((candidate.format, process.action))
        pool = f"{factory.name if factory else 'no factory'} on {process.engine}"
        flight = InFlight(candidate=candidate, group=WaitGroup() if pool in busy else group)
        self.in_flight[candidate.operation.id] = flight
        flight.group.add()
        self.pools.submit(pool, partial(self.dispatch_and_log, flight), partial(self.abandoned, flight))

    def dispatch_and_log(self, flight: InFlight) -> None:
        operation, changed = flight.candidate.operation, False
        try:
            changed = self.dispatch(flight)
        except LeaseLost:
            self.metrics.lease_lost(operation.process.action)
        except Exception:
            log.exception("an operation could not be dispatched", extra={"operation": operation.id})
        self.in_flight.pop(operation.id, None)
        flight.group.done(changed=changed)

    def abandoned(self, flight: InFlight, why: str) -> None:
        """The thread hangs in a plugin: put the operation back, unless its intent is stored."""
        self.in_flight.pop(flight.candidate.operation.id, None)
        flight.group.done()
        if flight.claimed is not None:
            try:
                self.put_back(flight.claimed, Skip(reason=f"not admitted: {why}"), self.store.clock.estimate())
            except LeaseLost:
                self.metrics.lease_lost(flight.claimed.process.action)

    def dispatch(self, flight: InFlight) -> bool:
        """Claim one operation and bring it to its engine. The heartbeat token is read before the lease begins."""
        engine = flight.candidate.operation.process.engine
        token = self.heartbeat_token(engine)
        claimed = flight.claimed = self.store.operations.claim(
            flight.candidate.operation, holder=self.holder, time_to_live=self.time_to_live,
            dispatch_slots=self.dispatch_slots(flight.candidate),
        )  # fmt: skip
        if claimed is None:
            return False
        (table, overlapping), now = self.store.tables.with_overlapping(claimed.table), self.store.clock.estimate()
        # A requested operation has no job yet, and its factory chooses the engine with it, unless the request did.
        if isinstance(token, Skip) and (claimed.process.job or claimed.wanted_engine):
            answer: Admission = token
        else:
            answer = self.admit(table, claimed, now, overlapping)
        if isinstance(answer, TableProcess) and self.drain.is_on:
            answer = DRAINING  # no engine has it yet: another instance claims it at once
        if isinstance(answer, Skip):
            if answer.is_starved:
                self.metrics.starved(table.format, claimed.process.action)
            self.put_back(claimed, answer, now)
            return False
        if isinstance(answer, TableProcess):
            # Of another engine no token was read: the work waits there for the first renewal, which brings one.
            known = token if answer.engine == engine and not isinstance(token, Skip) else None
            self.submit(flight, replace(claimed, process=answer), table, known)
        else:
            self.end(claimed, table, answer, now)
        return True

    def heartbeat_token(self, engine: str) -> str | Skip | None:
        """A Skip where the engine is off or does not answer."""
        try:
            token = self.plugins.engine(engine).heartbeat_token()
        except (OSError, LakehandError) as error:
            skip = not_admitted(error)
            self.off[engine] = EngineOff(skip.reason, self.store.clock.estimate() + (skip.look_again or LOOK_AGAIN))
            return skip
        self.off.pop(engine, None)
        return token

    def dispatch_slots(self, candidate: Candidate) -> list[str]:
        """The slots for operations of this format and action, over all instances; none where there is no limit."""
        pair = (str(candidate.format), str(candidate.operation.process.action))
        return [f"{pair[0]}:{pair[1]}#{number}" for number in range(self.limits.parallelism.get(pair, 0))]

    def admit(
        self, table: Table, operation: Operation, now: datetime, overlapping: Sequence[Table] | None = None
    ) -> Admission:
        """Ask the factory for the process as it must run now. An error only delays this operation."""
        if operation.process.action not in table.spec.action_types:
            return Drop(reason=taken_off(operation.process.action))
        try:
            factory = self.plugins.factory(table.format, operation.process.action)
            operation = self.recovery.recover_if_needed(table, operation, now)
            runtime = self.runtimes.open(table, factory, now=now, left_out=operation.id, reuse_snapshot=True)
            # The table has shown the effect already: only its rows are compared, which needs no admission.
            answer = operation.process if is_only_verifying(operation.process) else factory.admit(runtime, operation)
            if isinstance(answer, TableProcess):
                was_routed = bool(choice_of(operation.process))
                wanted, policy = operation.wanted_engine, policy_of(runtime.config)
                answer = route(answer, policy, self.plugins.engines, wanted=wanted, was_routed=was_routed)
                if wanted not in (None, answer.engine):
                    return other_engine(answer, wanted)
                self.plugins.engine(answer.engine)
                return bounded(verified(answer, operation, runtime), self.runtimes.boundary(runtime, overlapping))
            return answer
        except RecoverProcessFailed as error:
            return unrecoverable(str(error))
        except (OSError, LakehandError) as error:
            return not_admitted(error)

    def put_back(self, operation: Operation, skip: Skip, now: datetime) -> None:
        waiting = replace(operation, not_before=now + (skip.look_again or LOOK_AGAIN), reason=skip.reason)
        is_new = skip.reason != operation.reason
        event = operation_event(operation, "operation.waits", skip.reason) if is_new else None
        self.store.operations.save(waiting, now=now, event=event, release=True)

    def end(self, operation: Operation, table: Table, answer: Drop | Failure, now: datetime) -> None:
        """End it before an engine had it: its plan is gone, or it must not run."""
        if isinstance(answer, Drop):
            ended = operation.moved_to(Status.DROPPED, at=now, reason=answer.reason)
        else:
            ended = replace(operation.moved_to(Status.FAILED, at=now, reason=answer.message), failure=answer)
        event = operation_event(ended, f"operation.{ended.status}", ended.reason)
        self.store.operations.save(ended, now=now, event=event, release=True, wake=True)
        self.metrics.finished(ended, table.format, timedelta())
        self.observer.ended(ended)
        log.info(str(ended.status), extra={"operation": ended.id, "reason": ended.reason})

    def submit(self, flight: InFlight, operation: Operation, table: Table, heartbeat_token: str | None) -> None:
        """Intent before effect: the handle is stored first. If we die in between, the monitor submits it."""
        saved = self.store_intent(operation)
        flight.claimed = None
        grant = LeaseGrant(heartbeat_token=heartbeat_token, time_to_live=self.time_to_live)
        if self.plugins.submit(saved, table, grant):
            self.metrics.submitted(saved.process.action, saved.waited(self.store.clock.estimate()))
        self.observer.started(saved)
        log.info("submitted", extra={"operation": saved.id, "handle": saved.handle, "action": saved.process.action})
        self.on_submitted()

    def store_intent(self, operation: Operation) -> Operation:
        now, number, handle = self.store.clock.estimate(), operation.run_times + 1, self.ids.handle(operation)
        engine = operation.process.engine
        why = choice_of(operation.process)
        reason = f"attempt {number} was given to {engine}{f': {why}' if why else ''}"
        intent = replace(
            operation.moved_to(Status.SUBMITTED, at=now, reason=reason),
            handle=handle, run_times=number, submitted_at=now, started_at=None, progress={}, result={},
        )  # fmt: skip
        attempt = Attempt(
            operation=operation.id, number=number, handle=handle, engine=engine, instance=self.holder, started_at=now
        )
        event = operation_event(operation, "operation.submitted", reason)
        return self.store.operations.save(intent, now=now, attempt=attempt, event=event)


def is_ready(operation: Operation, now: datetime) -> bool:
    is_free = operation.lease is None or operation.lease.until <= now
    return operation.status is Status.PENDING and is_free and operation.not_before <= now


def policy_of(config: TableConfig) -> RoutingPolicy:
    large = config.text(LARGE_PROPERTY, LARGE)
    return read_policy(config.text(ENGINE_PROPERTY, AUTO), large, config.origin(LARGE_PROPERTY))


def bounded(process: TableProcess, boundary: Boundary) -> TableProcess:
    """Stored with the process, so that work that is submitted again keeps its boundary."""
    return replace(process, parameters={**process.parameters, BOUNDARY: boundary.as_parameter()})


def verified(process: TableProcess, operation: Operation, runtime: TableRuntime) -> TableProcess:
    """With what the job must know to compare rows, if the table or a request wants that."""
    if is_only_verifying(process):
        return process
    config = runtime.config
    wanted = row_mode(config.text(PROPERTY, "off"), config.origin(PROPERTY))
    return with_mode(process, wanted, mode_of(operation.process))


def other_engine(process: TableProcess, wanted: str | None) -> Failure:
    message = f"{process.action} of this table runs on {process.engine} alone, and the request asked for {wanted}"
    return Failure(reason="engine-refused", message=message, remedy=Remedy.FATAL)


def not_admitted(error: Exception) -> Skip:
    again = error.again if isinstance(error, TryLater) else LOOK_AGAIN
    return Skip(reason=f"not admitted: {error}", look_again=max(again, LOOK_AGAIN))
