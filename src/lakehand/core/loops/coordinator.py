# SPDX-License-Identifier: Apache-2.0
"""Turns due schedules into pending operations, or into a reason why not. Safe in every instance at once."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from lakehand.core.loops.draining import Drain
from lakehand.core.loops.evaluations import (
    STALE,
    Evaluation,
    FactoryEvaluation,
    TableEvaluation,
    by_table,
    deferred,
    failed,
    heartbeat,
    log_readability,
    reading_pool,
    undecided,
    unreadable,
    why_not_understood,
)
from lakehand.core.plugins.health_reader import HealthReader
from lakehand.core.plugins.pools import Task, WaitGroup, WorkerPools, set_aside
from lakehand.core.plugins.registry import Plugins
from lakehand.core.plugins.runtimes import Runtimes, Seen
from lakehand.core.ports import Metrics, Store
from lakehand.domain.actions import Action
from lakehand.domain.errors import Busy, LakehandError
from lakehand.domain.events import Event, operation_event
from lakehand.domain.operations import InstanceId, NewOperation, Operation, Status, service_instant
from lakehand.domain.processes import Skip, TableProcess
from lakehand.domain.schedules import EvaluationResult, Schedule
from lakehand.domain.tables import Table, TableId

log = logging.getLogger(__name__)
BATCH = 2000
TIME_TO_LIVE = timedelta(minutes=2)
WAIT = 1.0  # seconds for the evaluations of a batch, before the others are stored without the slow ones
COUNT_WAIT = 0.05  # seconds for the numbers of a batch; those that take longer are stored with a later one
MOST_WAITING = 100  # operations of one table and action that may wait
NOT_RETURNED = "the last evaluation has not returned yet"


class Probed(NamedTuple):
    """A table that was probed on the way to an evaluation."""

    evaluation: TableEvaluation
    token: str | None  # None: it could not be read
    again: timedelta  # until the next probe
    problem: str = ""  # why it could not be read

    @property
    def is_change(self) -> bool:
        return self.token is not None and self.token != self.evaluation.table.change_token


class Inspected(NamedTuple):
    """Evaluations for which a table's metadata was read."""

    part: FactoryEvaluation
    error: Exception | None  # why it could not be


class Finished(NamedTuple):
    """What is to be stored."""

    results: Sequence[EvaluationResult]
    probed: Sequence[Probed]
    inspected: Sequence[Inspected]


@dataclass(kw_only=True)
class Coordinator:
    """Evaluates tables on the pools of their formats and factories, and stores the results in batches.

    A slow plugin occupies its own pool only: after a moment the other results are stored without it.
    """

    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    holder: InstanceId
    pools: WorkerPools
    health: HealthReader
    on_stored: Callable[[], None]
    drain: Drain = field(default_factory=Drain)
    _results: deque[EvaluationResult] = field(default_factory=deque)
    _probed: deque[Probed] = field(default_factory=deque)
    _inspected: deque[Inspected] = field(default_factory=deque)
    _group: WaitGroup = field(default_factory=WaitGroup)  # of the batch that is in flight
    _in_flight: set[object] = field(default_factory=set)  # tables, and (table, factory) pairs
    _is_refitted: bool = False

    def run_once(self) -> bool:
        """Start one batch, and store the results of the one before. True when the batch was full.

        Then there may be more, and its results are stored while the next one is in flight.
        """
        now = self.store.clock.estimate()
        self.refit(now)
        due, tables = self.claim_due(now)
        self._group.wait(WAIT)
        finished = self.take_finished()
        self._group = self.start(due, tables, now) if due else WaitGroup()
        self.store_results(finished)
        if len(due) >= BATCH:
            return True
        self._group.wait(WAIT)
        self._group = WaitGroup()
        self.store_results(self.take_finished())
        return False

    def claim_due(self, now: datetime) -> tuple[Sequence[Schedule], Mapping[TableId, Table]]:
        if self.drain.is_on:
            return (), {}
        return self.store.schedules.claim_due(holder=self.holder, now=now, time_to_live=TIME_TO_LIVE, limit=BATCH)

    @property
    def unfinished(self) -> int:
        """Evaluations that are under way or not stored yet, without those that hang."""
        return len(self._in_flight - self.pools.hanging.keys()) + len(self._results)

    def refit(self, now: datetime) -> None:
        """Once per process: plugins and their strategies may have changed."""
        if not self._is_refitted:
            self.store.schedules.refit(self.plugins.all_strategies(), now=now)
            self._is_refitted = True

    def start(self, due: Sequence[Schedule], known: Mapping[TableId, Table], now: datetime) -> WaitGroup:
        """Submit each table to the pool of its format. Nobody waits for a pool that is still busy."""
        group, began, busy = WaitGroup(), time.monotonic(), self.pools.busy()
        tasks: dict[str, list[Task]] = {}
        for number, schedules in by_table(due):
            pool = reading_pool(known[number].format)
            whole = TableEvaluation(
                table=known[number], schedules=tuple(schedules), now=now, began=began,
                group=WaitGroup() if pool in busy else group,
            )  # fmt: skip
            if self.claim_flight(number, whole, whole.schedules, pool if pool in busy else ""):
                whole.group.add()
                task = Task(partial(self.evaluate_table, whole), partial(self.table_abandoned, whole))
                tasks.setdefault(pool, []).append(task)
        for pool, own in tasks.items():
            self.pools.submit_all(pool, own)
        return group

    def claim_flight(self, key: object, whole: TableEvaluation, schedules: Sequence[Schedule], pool: str) -> bool:
        """Mark the key as in flight. False, with its schedules deferred, if it is already, or the pool is full."""
        reason = None
        if key in self._in_flight or key in self.pools.hanging:
            why = self.pools.hanging.get(key)
            reason = f"{NOT_RETURNED}: {why}" if why else NOT_RETURNED
        elif not pool or self.pools.has_room(pool):
            self._in_flight.add(key)
            return True
        self._results.extend(deferred(whole.table.id, schedules, whole.now, reason))
        return False

    def end_flight(self, key: object) -> None:
        self._in_flight.discard(key)
        self.pools.hanging.pop(key, None)

    def evaluate_table(self, whole: TableEvaluation) -> None:
        """Get the table's change token, and ask the factories about the actions that need a decision."""
        try:
            if time.monotonic() - whole.began > STALE:
                self._results.extend(deferred(whole.table.id, whole.schedules, whole.now))
            else:
                self.ask_factories(whole)
        finally:
            self.end_flight(whole.table.id)
        whole.group.done()

    def table_abandoned(self, whole: TableEvaluation, why: str) -> None:
        """No second thread is sent to a table at which one hangs."""
        reason = self.pools.hanging[whole.table.id] = set_aside(why)
        self.report_unreadable(whole, reason)
        whole.group.done()

    def report_unreadable(self, whole: TableEvaluation, error: Exception | str) -> None:
        reason, again = unreadable(whole.table, error)
        self._probed.append(Probed(whole, None, again, reason))
        self._results.extend(undecided(s, reason, again=again, now=whole.now) for s in whole.schedules)

    def ask_factories(self, whole: TableEvaluation) -> None:
        try:
            token = self.token_of(whole)
        except Exception as error:
            self.report_unreadable(whole, error)
            return
        by_factory: dict[str, FactoryEvaluation] = {}
        for schedule in whole.schedules:
            self.sort_out(whole, schedule, token, by_factory)
        for part in by_factory.values():
            if self.claim_flight(part.key, whole, [e.schedule for e in part.open], part.pool):
                whole.group.add()
                self.pools.submit(part.pool, partial(self.ask, part), partial(self.factory_abandoned, part))

    def token_of(self, whole: TableEvaluation) -> str:
        """The prober's, where it has just found a change; else a probe."""
        if whole.stored_token is not None:
            return whole.stored_token
        token = self.runtimes.probe(whole.table.format, self.runtimes.table_reference(whole.table))
        self._probed.append(Probed(whole, token, heartbeat(whole.table)))
        return token

    def sort_out(
        self, whole: TableEvaluation, schedule: Schedule, token: str, by_factory: dict[str, FactoryEvaluation]
    ) -> None:
        """Finish the evaluation if nothing changed; else add it to those of its factory."""
        table = whole.table
        try:
            strategy = self.plugins.strategy(table.format, schedule.action)
            factory = self.plugins.factory(table.format, schedule.action)
        except LakehandError as error:
            self._results.append(failed(table, schedule, error, whole.now))
            return
        evaluation = Evaluation(table=table, schedule=schedule, strategy=strategy, token=token, now=whole.now)
        if evaluation.must_decide:
            part = by_factory.setdefault(factory.name, FactoryEvaluation(whole=whole, factory=factory))
            part.open.append(evaluation)
        else:
            self._results.append(evaluation.unchanged())

    def ask(self, part: FactoryEvaluation) -> None:
        seen = Seen()
        try:
            while part.open:
                result = self.decide_or_fail(part, part.open[0], seen)
                part.open.pop(0)
                self._results.append(result)
        finally:
            self.end_flight(part.key)
        self._inspected.append(Inspected(part, seen.error))
        if seen.snapshot is not None:
            self.health.start(part.whole.table, seen.snapshot, part.whole.now)
        part.whole.group.done()

    def factory_abandoned(self, part: FactoryEvaluation, why: str) -> None:
        whole, reason = part.whole, set_aside(why)
        self.pools.hanging[part.key] = reason
        error = TimeoutError(reason)
        self._results.extend(failed(whole.table, e.schedule, error, whole.now) for e in list(part.open))
        whole.group.done()

    def decide_or_fail(self, part: FactoryEvaluation, evaluation: Evaluation, seen: Seen) -> EvaluationResult:
        table, schedule, now = evaluation.table, evaluation.schedule, evaluation.now
        try:
            if time.monotonic() - part.whole.began > STALE:
                return deferred(table.id, [schedule], now)[0]
            return self.decide(part, evaluation, seen)
        except Busy as busy:
            return deferred(table.id, [schedule], now, f"{busy}")[0]
        except Exception as error:
            part.errors[schedule.action] = error
            result = failed(table, schedule, error, now)
            # Once, since it is tried every minute. That a table cannot be read is logged once for all of its actions.
            is_unread = isinstance(error, OSError) or error is seen.error
            is_known = result.reason == schedule.last_reason
            level = logging.DEBUG if is_unread or is_known else logging.WARNING
            where = {"table": table.id, "action": schedule.action}
            log.log(level, "an evaluation failed", exc_info=True, extra=where)
            return result

    def decide(self, part: FactoryEvaluation, evaluation: Evaluation, seen: Seen) -> EvaluationResult:
        action = evaluation.schedule.action
        runtime = self.runtimes.open(evaluation.table, part.factory, now=evaluation.now, seen=seen)
        answer = part.factory.trigger(runtime, action)
        part.answers.append(action)
        if isinstance(answer, Skip):
            if answer.is_starved:
                self.metrics.starved(evaluation.table.format, action)
            return evaluation.skipped(answer)
        unfinished = [o for o in runtime.operations(action) if not o.status.is_final]
        if unfinished and answer.instant is None:
            return evaluation.skipped(Skip(reason=f"operation {unfinished[0].id} is under way"))
        if len(unfinished) >= MOST_WAITING:
            return evaluation.skipped(Skip(reason=f"{len(unfinished)} operations of it wait already"))
        result = self.store_process(evaluation, answer, seen)
        return replace(result, used_partitions=runtime.used_partitions) if result.started else result

    def store_process(self, evaluation: Evaluation, process: TableProcess, seen: Seen) -> EvaluationResult:
        table, now = evaluation.table, evaluation.now
        instant = process.instant or service_instant(process.action, now)
        new = NewOperation(table=table.id, instant=instant, process=process, due_at=evaluation.schedule.due)
        event = Event(kind="operation.stored", message=f"{process.action} is needed: {process.reason}", table=table.id)
        seen.operations = None
        operation, is_new = self.store.operations.add(new, now=now, event=event)
        is_same = operation.process.action == process.action
        if not is_new and is_same and operation.status is Status.DROPPED and not operation.is_deleted:
            is_new = self.reopen(operation, now)
        if not is_new:
            what = "" if is_same else f" ({operation.process.action})"
            known = f"operation {operation.id} at {instant}{what} is {operation.status}: {operation.reason}"
            return evaluation.skipped(Skip(reason=known))
        self.metrics.scheduled(process.action, max(now - evaluation.schedule.due, timedelta()))
        log.info("stored", extra={"operation": operation.id, "table": table.id, "action": process.action})
        return evaluation.started(f"operation {operation.id} was stored: {process.reason}")

    def reopen(self, operation: Operation, now: datetime) -> bool:
        """Its plan was missing, for instance because it was submitted early, or its action was taken off the table."""
        why = "its plan is in the table, and can run again"
        event = operation_event(operation, "operation.reopened", why)
        self.store.operations.reopen(operation.reopened(at=now, reason=why), now=now, event=event)
        return True

    def take_finished(self) -> Finished:
        results = [self._results.popleft() for _ in range(len(self._results))]
        if results:
            self.health.wait(COUNT_WAIT)
        inspected = [self._inspected.popleft() for _ in range(len(self._inspected))]
        return Finished(results, [self._probed.popleft() for _ in range(len(self._probed))], inspected)

    def store_results(self, finished: Finished) -> None:
        results, probed, _ = finished
        problems = {p.evaluation.table.id: p.problem for p in probed if p.problem}
        inspected = self.understood(finished.inspected)
        health = self.health.take_all(only_late=not results and not probed)
        if not results and not probed and not health:
            return
        changed = [p for p in probed if p.is_change]
        tokens = {p.evaluation.table.id: p.token for p in changed if p.token is not None}
        next_due = {p.evaluation.table.id: p.evaluation.now + p.again for p in probed}
        woken = [pair for p in changed for pair in self.other_actions(p.evaluation)]
        self.store.probes.finish(
            next_due, tokens, woken=woken, results=results, problems=problems, inspected=inspected, health=health,
            now=self.store.clock.estimate(),
        )  # fmt: skip
        for p in probed:
            if p.problem:
                log_readability(p.evaluation.table.id, p.evaluation.table.problem, p.problem)
        self.health.confirm(health)
        self.metrics.probed(len(probed), len(tokens))
        if any(result.started for result in results):
            self.on_stored()

    def understood(self, inspected: Sequence[Inspected]) -> Mapping[TableId, str]:
        """Tables that cannot be understood, with the reason, and those that can be again, with an empty one."""
        found: dict[TableId, str] = {}
        for part, error in inspected:
            table = part.whole.table
            why = why_not_understood(part, error, partial(self.store.schedules.of_table, table.id))
            if why is not None:
                found[table.id] = found.get(table.id) or why
                log_readability(table.id, table.problem, why)
        return found

    def other_actions(self, whole: TableEvaluation) -> Iterator[tuple[TableId, Action]]:
        """A change that was found on the way to one action wakes the table's other change-driven actions.

        Not at the first evaluation of a table: all of its actions are due then.
        """
        table = whole.table
        if table.change_token is not None:
            rest = table.spec.action_types - {s.action for s in whole.schedules}
            yield from ((table.id, a) for a in rest if self.plugins.follows_changes(table.format, a))
