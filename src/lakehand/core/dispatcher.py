# SPDX-License-Identifier: Apache-2.0
"""Gives pending operations to engines: picks by the rules, claims, admits, stores the intent, then submits."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from lakehand.core.lanes import Lanes
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Secrets, Store
from lakehand.core.recovery import Recovery, unrecoverable
from lakehand.core.runtimes import Runtimes
from lakehand.core.turns import Turn
from lakehand.domain.boundaries import PARAMETER, Boundary
from lakehand.domain.errors import LakehandError, LeaseLost, PluginStuck, RecoverProcessFailed
from lakehand.domain.events import Event
from lakehand.domain.operations import Attempt, InstanceId, Operation, OperationId, Status
from lakehand.domain.processes import Drop, Failure, Skip, TableProcess
from lakehand.domain.rules import Busy, Candidate, Choice, Limits, choose
from lakehand.domain.tables import Table
from lakehand.spi.engines import ExecuteEngine, LeaseGrant, Work

log = logging.getLogger(__name__)
WINDOW = 200  # candidates weighed at once
LOOK_AGAIN = timedelta(seconds=30)
PATIENCE = 2.0  # seconds for those that are not back yet, before others are chosen
NOTHING = Choice(go=(), wait={})
Answer = TableProcess | Skip | Drop | Failure


@dataclass(slots=True, kw_only=True)
class Hand:
    """An operation that a thread brings to its engine."""

    candidate: Candidate
    turn: Turn
    claimed: Operation | None = None  # set from the claim until the intent is stored

    @property
    def as_busy(self) -> Busy:
        operation = self.candidate.operation
        return Busy(
            table=operation.table, slot=operation.slot, queue=operation.queue, owner=operation.owner,
            format=str(self.candidate.format), action=str(operation.process.action),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    secrets: Secrets
    recovery: Recovery
    holder: InstanceId
    time_to_live: timedelta
    limits: Limits
    lanes: Lanes
    on_submitted: Callable[[], None]
    in_hand: dict[OperationId, Hand] = field(default_factory=dict)

    def run_once(self) -> bool:
        """Dispatch what the rules let go. True when something was moved, so there may be more."""
        candidates = self.candidates(self.store.clock.now())
        known = {c.operation.id: c for c in candidates}
        turn, owing = Turn(), self.lanes.busy()
        for operation in self.choice(candidates).go:
            self.send(known[operation.id], turn, owing)
        turn.wait(PATIENCE)
        return turn.moved > 0

    def candidates(self, now: datetime) -> Sequence[Candidate]:
        found = self.store.operations.candidates(now=now, limit=WINDOW)
        return [c for c in found if c.operation.id not in self.in_hand]

    def choice(self, candidates: Sequence[Candidate]) -> Choice:
        """By the rules. What a thread has in hand is as good as running."""
        if not candidates:
            return NOTHING
        live = self.store.operations.busy()
        slots = {b.slot for b in live}
        busy = [*live, *(b for b in self.hands() if b.slot not in slots)]
        mine = len([o for o in self.store.operations.held(self.holder) if o.status.is_live]) + len(busy) - len(live)
        places = len(busy) + max(0, sum(e.capacity for e in self.plugins.engines.values()) - mine)
        allowed = min(places, self.limits.running or places)
        if allowed <= len(busy):
            return Choice(go=(), wait={c.operation.id: f"all {allowed} places are taken" for c in candidates})
        return choose(candidates, busy, replace(self.limits, running=allowed), self.store.clock.now())

    def hands(self) -> Iterable[Busy]:
        return [hand.as_busy for hand in list(self.in_hand.values())]

    def waits(self) -> Mapping[int, str]:
        """Why each of the best candidates does not go now."""
        return self.choice(self.candidates(self.store.clock.now())).wait

    def send(self, candidate: Candidate, turn: Turn, owing: frozenset[str]) -> None:
        """To the lane of its factory and engine. Nobody waits for a lane that still owes something."""
        lane = self.lane_of(candidate)
        hand = Hand(candidate=candidate, turn=Turn() if lane in owing else turn)
        self.in_hand[candidate.operation.id] = hand
        hand.turn.expect()
        self.lanes.post(lane, partial(self.dispatch_guarded, hand), partial(self.left, hand))

    def lane_of(self, candidate: Candidate) -> str:
        process = candidate.operation.process
        factory = self.plugins.factories.get((candidate.format, process.action))
        return f"{factory.name if factory else 'nobody'} on {process.engine}"

    def dispatch_guarded(self, hand: Hand) -> None:
        operation, moved = hand.candidate.operation, False
        try:
            moved = self.dispatch(hand)
        except LeaseLost:
            self.metrics.lease_lost(operation.process.action)
        except Exception:
            log.exception("an operation could not be dispatched", extra={"operation": operation.id})
        self.in_hand.pop(operation.id, None)
        hand.turn.back(moved=moved)

    def left(self, hand: Hand, why: str) -> None:
        """The thread hangs in a plugin and will do nothing more: put the operation back, unless its engine has it."""
        self.in_hand.pop(hand.candidate.operation.id, None)
        hand.turn.back()
        if hand.claimed is not None:
            try:
                self.put_back(hand.claimed, Skip(reason=f"not admitted: {why}"), self.store.clock.now())
            except LeaseLost:
                self.metrics.lease_lost(hand.claimed.process.action)

    def dispatch(self, hand: Hand) -> bool:
        """Claim one operation and bring it to its engine. The engine's mark is read before the lease begins."""
        engine = hand.candidate.operation.process.engine
        heartbeat_token = self.heartbeat_token_of(engine)
        claimed = hand.claimed = self.claim(hand.candidate)
        if claimed is None:
            return False
        table, now = self.store.tables.get(claimed.table), self.store.clock.now()
        # A wish has no job yet, and its factory chooses the engine with it.
        answer = (
            heartbeat_token
            if isinstance(heartbeat_token, Skip) and claimed.process.job
            else self.admit(table, claimed, now)
        )
        if isinstance(answer, Skip):
            self.put_back(claimed, answer, now)
            return False
        if isinstance(answer, TableProcess):
            # Of another engine no mark was read: the work waits there for the first renewal, which brings one.
            known = heartbeat_token if answer.engine == engine and not isinstance(heartbeat_token, Skip) else None
            return self.submit(hand, replace(claimed, process=answer), table, known)
        self.end(claimed, answer, now)
        return True

    def heartbeat_token_of(self, name: str) -> str | Skip | None:
        """Why not, where the engine is off or does not answer."""
        try:
            return self.plugins.engine(name).heartbeat_token()
        except (OSError, LakehandError) as error:
            return refused(error)

    def claim(self, candidate: Candidate) -> Operation | None:
        now, places = self.store.clock.now(), self.places_of(candidate)
        return self.store.operations.claim(
            candidate.operation, holder=self.holder, now=now, time_to_live=self.time_to_live, places=places
        )

    def places_of(self, candidate: Candidate) -> list[str]:
        """The places for operations of this format and action, over all instances; none where there is no limit."""
        pair = (str(candidate.format), str(candidate.operation.process.action))
        return [f"{pair[0]}:{pair[1]}#{number}" for number in range(self.limits.parallelism.get(pair, 0))]

    def admit(self, table: Table, operation: Operation, now: datetime) -> Answer:
        """Ask the factory for the process as it must run now; whatever goes wrong here only delays this operation."""
        try:
            factory = self.plugins.factory(table.format, operation.process.action)
            operation = self.recovery.recover_if_needed(table, operation, now)
            runtime = self.runtimes.open(table, factory, now=now, left_out=operation.id)
            answer = factory.admit(runtime, operation)
            if isinstance(answer, TableProcess):
                self.plugins.engine(answer.engine)
                return bounded(answer, self.runtimes.boundary(runtime))
            return answer
        except RecoverProcessFailed as error:
            return unrecoverable(str(error))
        except (OSError, LakehandError) as error:
            return refused(error)

    def put_back(self, operation: Operation, skip: Skip, now: datetime) -> None:
        later = now + (skip.look_again or LOOK_AGAIN)
        waiting = replace(operation, not_before=later, reason=skip.reason)
        changed = skip.reason != operation.reason
        told = Event(kind="operation.waits", message=skip.reason, table=operation.table, operation=operation.id)
        self.store.operations.save(waiting, now=now, event=told if changed else None, release=True)

    def end(self, operation: Operation, answer: Drop | Failure, now: datetime) -> None:
        """Over before an engine had it: its object is gone, or it must not run."""
        if isinstance(answer, Drop):
            ended, why = operation.moved_to(Status.DROPPED, at=now, reason=answer.reason), "dropped"
        else:
            failed = operation.moved_to(Status.FAILED, at=now, reason=answer.message)
            ended, why = replace(failed, failure=answer), answer.reason
        told = Event(kind=f"operation.{ended.status}", message=ended.reason, table=ended.table, operation=ended.id)
        self.store.operations.save(ended, now=now, event=told, release=True)
        self.store.schedules.wake([ended.table], now=now)
        self.metrics.finished(ended.process.action, ended.status, why, timedelta())
        log.info(str(ended.status), extra={"operation": ended.id, "reason": ended.reason})

    def submit(self, hand: Hand, operation: Operation, table: Table, heartbeat_token: str | None) -> bool:
        """Intent before effect: the handle is stored first. If we die in between, the monitor submits it."""
        engine = self.plugins.engine(operation.process.engine)
        saved = self.store_intent(operation, engine)
        hand.claimed = None
        give(engine, saved, table, LeaseGrant(heartbeat_token=heartbeat_token, time_to_live=self.time_to_live))
        waited = max(self.store.clock.now() - operation.created_at, timedelta())
        self.metrics.submitted(operation.process.action, waited)
        log.info("submitted", extra={"operation": saved.id, "handle": saved.handle, "action": saved.process.action})
        self.on_submitted()
        return True

    def store_intent(self, operation: Operation, engine: ExecuteEngine) -> Operation:
        now, number, handle = self.store.clock.now(), operation.run_times + 1, self.secrets.handle(operation)
        reason = f"attempt {number} was given to {engine.name}"
        intent = replace(
            operation.moved_to(Status.SUBMITTED, at=now, reason=reason),
            handle=handle, run_times=number, submitted_at=now, started_at=None, progress={}, result={},
        )  # fmt: skip
        attempt = Attempt(
            operation=operation.id, number=number, handle=handle, engine=engine.name, instance=self.holder,
            started_at=now,
        )  # fmt: skip
        told = Event(kind="operation.submitted", message=reason, table=operation.table, operation=operation.id)
        return self.store.operations.save(intent, now=now, attempt=attempt, event=told)


def bounded(process: TableProcess, boundary: Boundary) -> TableProcess:
    """Stored with the process: work that is submitted again keeps the boundary it was admitted with."""
    return replace(process, parameters={**process.parameters, PARAMETER: boundary.as_parameter()})


def refused(error: Exception) -> Skip:
    again = error.again if isinstance(error, PluginStuck) else LOOK_AGAIN
    return Skip(reason=f"not admitted: {error}", look_again=max(again, LOOK_AGAIN))


def give(engine: ExecuteEngine, operation: Operation, table: Table, grant: LeaseGrant) -> bool:
    """Hand the work over. An engine that does not take it changes nothing: the monitor gives it again."""
    assert operation.handle is not None
    try:
        engine.submit(work_of(operation, table), operation.handle, grant)
    except (OSError, LakehandError) as error:
        log.warning("the engine did not take it yet", extra={"operation": operation.id, "reason": str(error)})
        return False
    return True


def work_of(operation: Operation, table: Table) -> Work:
    return Work(
        job=operation.process.job,
        parameters=operation.process.parameters,
        table=table.name,
        location=table.location,
        queue=operation.queue,
        operation=operation.id,
    )
