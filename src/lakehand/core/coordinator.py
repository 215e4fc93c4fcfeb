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
from lakehand.domain.errors import LakehandError, PluginBroken
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, NewOperation, Operation, Status
from lakehand.domain.processes import Skip, TableProcess
from lakehand.domain.schedules import Look, Schedule, spread
from lakehand.domain.tables import Table, TableId
from lakehand.spi.factories import ProcessTriggerStrategy

log = logging.getLogger(__name__)
BATCH = 300
HOLD = timedelta(minutes=2)
PATIENCE = 60.0  # seconds for one batch of looks; a table that takes longer is looked at again later
SLOW_AGAIN = timedelta(minutes=1)
NEVER = timedelta(days=3650)


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
        changed = token != visit.table.change_token
        looks = tuple(self.look(visit.table, schedule, now, changed=changed) for schedule in visit.schedules)
        return Outcome(table=visit.table, token=token, looks=looks)

    def look(self, table: Table, schedule: Schedule, now: datetime, *, changed: bool) -> Look:
        try:
            factory = self.plugins.factory(table.format, schedule.action)
            strategy = factory.trigger_strategy(table.format, schedule.action)
            if not must_decide(schedule, strategy, now, changed=changed):
                return Look(schedule=schedule, next_due=next_due(table, schedule, strategy, now), reason=None)
            runtime = self.runtimes.open(table, factory, now=now)
            return self.decide(runtime, schedule, strategy, now)
        except Exception as error:
            log.warning("a look failed", exc_info=True, extra={"table": table.id, "action": schedule.action})
            again = now + min(table.spec.heartbeat_timeout, SLOW_AGAIN)
            return Look(schedule=schedule, next_due=again, reason=f"the look failed: {error}", decide_next=True)

    def decide(
        self, runtime: StoredRuntime, schedule: Schedule, strategy: ProcessTriggerStrategy, now: datetime
    ) -> Look:
        table, factory = runtime.table, self.plugins.factory(runtime.table.format, schedule.action)
        answer = factory.trigger(runtime, schedule.action)
        if isinstance(answer, Skip):
            return skipped(table, schedule, strategy, answer, now)
        if not isinstance(answer, TableProcess):
            raise PluginBroken(f"{factory.name}.trigger returned {type(answer).__name__}, not a process or a skip")
        under_way = [o for o in runtime.operations(schedule.action) if not o.status.is_final]
        if answer.instant is None and under_way:
            waits = Skip(reason=f"operation {under_way[0].id} is under way")
            return skipped(table, schedule, strategy, waits, now)
        return self.store_process(table, schedule, strategy, answer, now)

    def store_process(
        self, table: Table, schedule: Schedule, strategy: ProcessTriggerStrategy, process: TableProcess, now: datetime
    ) -> Look:
        instant = process.instant or service_instant(process.action, now)
        new = NewOperation(
            table=table.id, instant=instant, process=process, priority=table.spec.priority,
            queue=table.spec.queue, owner=table.spec.owner, due_at=schedule.due,
        )  # fmt: skip
        stored = Event(kind="operation.stored", message=f"{process.action} is needed: {process.reason}", table=table.id)
        operation, is_new = self.store.operations.add(new, now=now, event=stored)
        if not is_new and operation.status is Status.DROPPED and not operation.is_deleted:
            is_new = self.take_up_again(operation, now)
        if not is_new:
            known = Skip(reason=f"operation {operation.id} at {instant} is {operation.status}: {operation.reason}")
            return skipped(table, schedule, strategy, known, now)
        self.metrics.scheduled(process.action, max(now - schedule.due, timedelta()))
        log.info("stored", extra={"operation": operation.id, "table": table.id, "action": process.action})
        reason = f"operation {operation.id} was stored: {process.reason}"
        return Look(schedule=schedule, next_due=now, reason=reason, started=True, decide_next=True)

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


def must_decide(schedule: Schedule, strategy: ProcessTriggerStrategy, now: datetime, *, changed: bool) -> bool:
    """An unchanged table that nobody asked about keeps the reason it has."""
    if schedule.wakes or schedule.last_look is None or (changed and strategy.on_new_snapshot):
        return True
    return strategy.interval is not None and interval_due(schedule, strategy.interval) <= now


def interval_due(schedule: Schedule, interval: timedelta) -> datetime:
    """Counted from the last start, so that a long run does not push the next one away."""
    return (schedule.last_start or schedule.due) + interval


def next_due(table: Table, schedule: Schedule, strategy: ProcessTriggerStrategy, now: datetime) -> datetime:
    """When the schedule is looked at again if nobody speaks up: the heartbeat timeout, or the interval if sooner."""
    heartbeat = table.spec.heartbeat_timeout
    first = spread(f"{table.id}", heartbeat, share=1.0) if schedule.last_look is None else timedelta()
    by_heartbeat = now + heartbeat - first if strategy.on_new_snapshot else now + NEVER
    if strategy.interval is None:
        return by_heartbeat
    start = schedule.last_start or now
    by_interval = start + strategy.interval + spread(f"{table.id}:{schedule.action}", strategy.interval)
    return min(by_heartbeat, max(by_interval, now))


def skipped(table: Table, schedule: Schedule, strategy: ProcessTriggerStrategy, skip: Skip, now: datetime) -> Look:
    due = next_due(table, schedule, strategy, now)
    if skip.look_again is not None:
        due = min(due, now + skip.look_again)
    return Look(schedule=schedule, next_due=due, reason=skip.reason, decide_next=skip.look_again is not None)


def unreadable(visit: Visit, error: Exception, now: datetime) -> Outcome:
    """One bad table stops no other: it says why, and is looked at again at its heartbeat."""
    reason = f"{visit.table.location} cannot be read: {error}"
    again = now + visit.table.spec.heartbeat_timeout
    looks = tuple(Look(schedule=s, next_due=again, reason=reason, decide_next=True) for s in visit.schedules)
    return Outcome(table=visit.table, token=None, looks=looks)


def too_slow(visit: Visit, now: datetime) -> Outcome:
    return unreadable(visit, TimeoutError(f"no answer within {PATIENCE:.0f} s"), now)
