# SPDX-License-Identifier: Apache-2.0
"""Turns due (table, action) pairs into pending operations, or into a reason why not. Safe in every instance at once."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from lakehand.core.operations_desk import service_instant
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.core.runtimes import Runtimes, StoredRuntime
from lakehand.core.timing import Question, failed
from lakehand.domain.errors import LakehandError, PluginBroken
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, NewOperation, Operation, Status
from lakehand.domain.processes import Skip, TableProcess
from lakehand.domain.schedules import Look, Schedule
from lakehand.domain.tables import Table, TableId

log = logging.getLogger(__name__)
BATCH = 300
HOLD = timedelta(minutes=2)
PATIENCE = 60.0  # seconds for one batch of looks; a table that takes longer is looked at again later
SLOW_AGAIN = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Coordinator:
    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    holder: InstanceId
    pool: Executor
    on_stored: Callable[[], None]

    def run_once(self) -> bool:
        """Handle one batch. True when the batch was full, so there may be more."""
        now = self.store.clock.now()
        due = self.store.schedules.claim_due(holder=self.holder, now=now, hold=HOLD, limit=BATCH)
        if due:
            self.handle(due, now)
        return len(due) >= BATCH

    def handle(self, due: Sequence[Schedule], now: datetime) -> None:
        tables = self.store.tables.by_ids({s.table for s in due})
        visits = [Visit(table=tables[t], schedules=tuple(s)) for t, s in by_table(due) if t in tables]
        done = self.visit_all(visits, now)
        looks = [look for outcome in done for look in outcome.looks]
        tokens = {o.table.id: o.token for o in done if o.token is not None and o.token != o.table.change_token}
        self.store.tables.looked([o.table.id for o in done], tokens, now=now)
        self.store.schedules.finish(looks, now=self.store.clock.now())
        self.metrics.looked(len(done), len(tokens))
        if any(look.started for look in looks):
            self.on_stored()

    def visit_all(self, visits: Sequence["Visit"], now: datetime) -> list["Outcome"]:
        futures: dict[Future[Outcome], Visit] = {self.pool.submit(self.visit, v, now): v for v in visits}
        finished, slow = wait(futures, timeout=PATIENCE)
        for future in slow:
            future.cancel()
        return [f.result() for f in finished] + [too_slow(futures[f], now) for f in slow]

    def visit(self, visit: "Visit", now: datetime) -> "Outcome":
        """Probe the table; decide about each action where something may have changed."""
        try:
            token = self.runtimes.probe(visit.table)
        except (OSError, LakehandError) as error:
            return unreadable(visit, error, now)
        looks = tuple(self.look(visit.table, schedule, token, now) for schedule in visit.schedules)
        return Outcome(table=visit.table, token=token, looks=looks)

    def look(self, table: Table, schedule: Schedule, token: str, now: datetime) -> Look:
        try:
            factory = self.plugins.factory(table.format, schedule.action)
            strategy = factory.trigger_strategy(table.format, schedule.action)
            question = Question(table=table, schedule=schedule, strategy=strategy, token=token, now=now)
            if not question.must_decide:
                return question.unchanged()
            return self.decide(self.runtimes.open(table, factory, now=now), question)
        except Exception as error:
            log.warning("a look failed", exc_info=True, extra={"table": table.id, "action": schedule.action})
            again = min(table.spec.heartbeat_timeout, SLOW_AGAIN)
            return failed(table, schedule, f"the look failed: {error}", again=again, now=now)

    def decide(self, runtime: StoredRuntime, question: Question) -> Look:
        action = question.schedule.action
        factory = self.plugins.factory(runtime.table.format, action)
        answer = factory.trigger(runtime, action)
        if isinstance(answer, Skip):
            return question.skipped(answer)
        if not isinstance(answer, TableProcess):
            raise PluginBroken(f"{factory.name}.trigger returned {type(answer).__name__}, not a process or a skip")
        under_way = [o for o in runtime.operations(action) if not o.status.is_final]
        if answer.instant is None and under_way:
            return question.skipped(Skip(reason=f"operation {under_way[0].id} is under way"))
        return self.store_process(question, answer)

    def store_process(self, question: Question, process: TableProcess) -> Look:
        table, now = question.table, question.now
        instant = process.instant or service_instant(process.action, now)
        new = NewOperation(
            table=table.id, instant=instant, process=process, priority=table.spec.priority,
            queue=table.spec.queue, owner=table.spec.owner, due_at=question.schedule.due,
        )  # fmt: skip
        stored = Event(kind="operation.stored", message=f"{process.action} is needed: {process.reason}", table=table.id)
        operation, is_new = self.store.operations.add(new, now=now, event=stored)
        if not is_new and operation.status is Status.DROPPED and not operation.is_deleted:
            is_new = self.take_up_again(operation, now)
        if not is_new:
            known = f"operation {operation.id} at {instant} is {operation.status}: {operation.reason}"
            return question.skipped(Skip(reason=known))
        self.metrics.scheduled(process.action, max(now - question.schedule.due, timedelta()))
        log.info("stored", extra={"operation": operation.id, "table": table.id, "action": process.action})
        return question.started(f"operation {operation.id} was stored: {process.reason}")

    def take_up_again(self, operation: Operation, now: datetime) -> bool:
        """Its plan was not there, and now it is: for instance someone submitted it early."""
        why = "the plan that was gone is there again"
        told = Event(kind="operation.reopened", message=why, table=operation.table, operation=operation.id)
        self.store.operations.reopen(operation.reopened(at=now, reason=why), now=now, event=told)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One table and its due schedules."""

    table: Table
    schedules: tuple[Schedule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    table: Table
    token: str | None  # None: it could not be read
    looks: tuple[Look, ...]


def by_table(due: Sequence[Schedule]) -> Iterator[tuple[TableId, Iterator[Schedule]]]:
    return groupby(sorted(due, key=lambda s: s.table), key=lambda s: s.table)


def unreadable(visit: Visit, error: Exception, now: datetime) -> Outcome:
    """One bad table stops no other: it says why, and is looked at again at its heartbeat."""
    reason = f"{visit.table.location} cannot be read: {error}"
    looks = tuple(
        failed(visit.table, s, reason, again=visit.table.spec.heartbeat_timeout, now=now) for s in visit.schedules
    )
    return Outcome(table=visit.table, token=None, looks=looks)


def too_slow(visit: Visit, now: datetime) -> Outcome:
    return unreadable(visit, TimeoutError(f"no answer within {PATIENCE:.0f} s"), now)
