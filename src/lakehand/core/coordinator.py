# SPDX-License-Identifier: Apache-2.0
"""Turns due (table, action) pairs into pending operations, or into a reason why not. Safe in every instance at once."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from lakehand.core.lanes import Lanes, Task
from lakehand.core.news import tell
from lakehand.core.operation_service import service_instant
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.core.runtimes import Runtimes, Seen
from lakehand.core.set_aside import set_aside
from lakehand.core.timing import Question, heartbeat
from lakehand.core.turns import Turn, back, expect
from lakehand.core.visits import STALE, Outcome, Part, Visit, by_table, lane_of, look_failed, put_off, unreadable
from lakehand.domain.actions import Action
from lakehand.domain.errors import LakehandError
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, NewOperation, Operation, Status
from lakehand.domain.processes import Skip, TableProcess
from lakehand.domain.schedules import Look, Schedule
from lakehand.domain.tables import TableId

log = logging.getLogger(__name__)
BATCH = 2000
TIME_TO_LIVE = timedelta(minutes=2)
PATIENCE = 1.0  # seconds for those that are not back yet, before the others are stored and new ones are sent
MOST_WAITING = 100  # operations of one table and action that may wait
STILL_OUT = "the last look has not come back yet"


@dataclass(kw_only=True)
class Coordinator:
    """Sends tables out on the lanes of their formats and factories, and stores what comes back, in batches.

    A slow plugin keeps its own lane only: after a moment the others go on without it.
    """

    store: Store
    plugins: Plugins
    runtimes: Runtimes
    metrics: Metrics
    holder: InstanceId
    lanes: Lanes
    hanging: dict[object, str]  # shared with the prober: where a thread hangs that nobody waits for, and why
    on_stored: Callable[[], None]
    _back: deque[Outcome] = field(default_factory=deque)
    _turn: Turn = field(default_factory=Turn)  # the batch that is out
    _out: set[object] = field(default_factory=set)  # tables, and (table, factory) pairs, that a thread is busy with
    _is_fitted: bool = False  # what earlier processes have written was compared with the strategies of this one

    def run_once(self) -> bool:
        """Send one batch, and store what the one before brought back meanwhile. True when the batch was full.

        Then there may be more, and its outcomes are stored while the next one is out; the last one is waited for.
        """
        now = self.store.clock.now()
        self.refit(now)
        due = self.store.schedules.claim_due(holder=self.holder, now=now, time_to_live=TIME_TO_LIVE, limit=BATCH)
        self._turn.wait(PATIENCE)
        back = self.take_back()
        self._turn = self.send(due, now) if due else Turn()
        self.store_outcomes(back, now)
        if len(due) >= BATCH:
            return True
        self._turn.wait(PATIENCE)
        self._turn = Turn()
        self.store_outcomes(self.take_back(), now)
        return False

    def refit(self, now: datetime) -> None:
        """Once: plugins and their strategies may be others than those of the process before."""
        if not self._is_fitted:
            self.store.schedules.refit(self.plugins.all_strategies(), now=now)
            self._is_fitted = True

    def send(self, due: Sequence[Schedule], now: datetime) -> Turn:
        """Each table to the lane of its format. Nobody waits for a lane that still owes something."""
        turn, began, owing = Turn(), time.monotonic(), self.lanes.busy()
        tables = self.store.tables.by_ids({s.table for s in due})
        tasks: dict[str, list[Task]] = {}
        for table, schedules in by_table(due):
            if table in tables:
                lane = lane_of(tables[table].format)
                awaited = None if lane in owing else turn
                visit = Visit(table=tables[table], schedules=tuple(schedules), now=now, began=began, turn=awaited)
                tasks.setdefault(lane, []).extend(self.task_of(visit, lane))
        turn.expect(sum(len(own) for lane, own in tasks.items() if lane not in owing))
        for lane, own in tasks.items():
            self.lanes.post_all(lane, own)
        return turn

    def task_of(self, visit: Visit, lane: str) -> Iterator[Task]:
        """None for a table that is still out, or while its lane is full."""
        if visit.table.id in self._out or visit.table.id in self.hanging:
            self._back.append(put_off(visit.table, visit.schedules, visit.now, self.still_out(visit.table.id)))
        elif visit.turn is None and not self.lanes.has_room(lane):
            self._back.append(put_off(visit.table, visit.schedules, visit.now))
        else:
            self._out.add(visit.table.id)
            yield Task(partial(self.visit, visit), partial(self.visit_left, visit))

    def visit(self, visit: Visit) -> None:
        """Probe the table, and ask about each action where something may have changed."""
        try:
            if time.monotonic() - visit.began > STALE:
                self._back.append(put_off(visit.table, visit.schedules, visit.now))
            else:
                self._back.append(self.look_at(visit))
        finally:
            self._out.discard(visit.table.id)
            self.hanging.pop(visit.table.id, None)
        back(visit.turn)

    def visit_left(self, visit: Visit, why: str) -> None:
        """No second thread shall hang at the same table."""
        self.hanging[visit.table.id] = set_aside(why)
        self._back.append(unreadable(visit, set_aside(why)))
        back(visit.turn)

    def still_out(self, what: object) -> str:
        why = self.hanging.get(what)
        return f"{STILL_OUT}: {why}" if why else STILL_OUT

    def look_at(self, visit: Visit) -> Outcome:
        try:
            token = self.runtimes.probe(visit.table.format, self.runtimes.table_reference(visit.table))
        except Exception as error:
            return unreadable(visit, error)
        looks: list[Look] = []
        parts: dict[str, Part] = {}
        for schedule in visit.schedules:
            self.sort_out(visit, schedule, token, looks, parts)
        for part in parts.values():
            self.ask_soon(part)
        return Outcome(visit=visit, token=token, looks=looks)

    def sort_out(self, visit: Visit, schedule: Schedule, token: str, looks: list[Look], parts: dict[str, Part]) -> None:
        """What nothing speaks for is over; the rest is for the factories."""
        table = visit.table
        try:
            strategy = self.plugins.strategy(table.format, schedule.action)
            factory = self.plugins.factory(table.format, schedule.action)
        except LakehandError as error:
            looks.append(look_failed(table, schedule, error, visit.now))
            return
        question = Question(table=table, schedule=schedule, strategy=strategy, token=token, now=visit.now)
        if question.must_decide:
            parts.setdefault(factory.name, Part(visit=visit, factory=factory)).open.append(question)
        else:
            looks.append(question.unchanged())

    def ask_soon(self, part: Part) -> None:
        """The lane of the factory decides: what it does with its time is its own affair."""
        table, schedules = part.visit.table, [q.schedule for q in part.open]
        if part.key in self._out:
            self._back.append(put_off(table, schedules, part.visit.now, self.still_out(part.key)))
        elif not self.lanes.has_room(part.lane):
            self._back.append(put_off(table, schedules, part.visit.now))
        else:
            self._out.add(part.key)
            expect(part.visit.turn)
            self.lanes.post(part.lane, partial(self.ask, part), partial(self.ask_left, part))

    def ask(self, part: Part) -> None:
        seen = Seen()
        try:
            while part.open:
                question = part.open[0]
                look = self.decide_guarded(part, question, seen)
                part.open.pop(0)
                self._back.append(Outcome(looks=[look]))
        finally:
            self._out.discard(part.key)
            self.hanging.pop(part.key, None)
        back(part.visit.turn)

    def ask_left(self, part: Part, why: str) -> None:
        table, now = part.visit.table, part.visit.now
        self.hanging[part.key] = set_aside(why)
        looks = [look_failed(table, q.schedule, TimeoutError(set_aside(why)), now) for q in list(part.open)]
        self._back.append(Outcome(looks=looks))
        back(part.visit.turn)

    def decide_guarded(self, part: Part, question: Question, seen: Seen) -> Look:
        table, schedule, now = question.table, question.schedule, question.now
        try:
            if time.monotonic() - part.visit.began > STALE:
                [late] = put_off(table, [schedule], now).looks
                return late
            return self.decide(part, question, seen)
        except Exception as error:
            log.warning("a look failed", exc_info=True, extra={"table": table.id, "action": schedule.action})
            return look_failed(table, schedule, error, now)

    def decide(self, part: Part, question: Question, seen: Seen) -> Look:
        action = question.schedule.action
        runtime = self.runtimes.open(question.table, part.factory, now=question.now, seen=seen)
        answer = part.factory.trigger(runtime, action)
        if isinstance(answer, Skip):
            return question.skipped(answer)
        under_way = [o for o in runtime.operations(action) if not o.status.is_final]
        if under_way and answer.instant is None:
            return question.skipped(Skip(reason=f"operation {under_way[0].id} is under way"))
        if len(under_way) >= MOST_WAITING:
            return question.skipped(Skip(reason=f"{len(under_way)} operations of it wait already"))
        return self.store_process(question, answer, seen)

    def store_process(self, question: Question, process: TableProcess, seen: Seen) -> Look:
        table, now = question.table, question.now
        instant = process.instant or service_instant(process.action, now)
        new = NewOperation(
            table=table.id, instant=instant, process=process, priority=table.spec.priority,
            queue=table.spec.queue, owner=table.spec.owner, due_at=question.schedule.due,
        )  # fmt: skip
        stored = Event(kind="operation.stored", message=f"{process.action} is needed: {process.reason}", table=table.id)
        seen.operations = None
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

    def take_back(self) -> list[Outcome]:
        return [self._back.popleft() for _ in range(len(self._back))]

    def store_outcomes(self, outcomes: Sequence[Outcome], now: datetime) -> None:
        """All that came back, in a few statements."""
        if not outcomes:
            return
        looks = [look for outcome in outcomes for look in outcome.looks]
        visits = [(outcome.visit, outcome) for outcome in outcomes if outcome.visit is not None]
        tokens = {v.table.id: o.token for v, o in visits if o.token is not None and o.token != v.table.change_token}
        # Who waits for changes is told first: a change that nobody was told of is seen again.
        tell(self.store.schedules, self.others([visit for visit, _ in visits if visit.table.id in tokens]), now)
        probed = {visit.table.id: visit.now + (o.again or heartbeat(visit.table)) for visit, o in visits}
        self.store.probes.finish(probed, tokens, now=now)
        self.store.schedules.finish(looks, now=self.store.clock.now())
        self.metrics.looked(len(visits), len(tokens))
        if any(look.started for look in looks):
            self.on_stored()

    def others(self, changed: Iterable[Visit]) -> Iterator[tuple[Action, TableId]]:
        """A change that was seen on the way to one action is news for all that follow changes of the table.

        After the first look ever there are none: all actions of a new table are due together.
        """
        for visit in changed:
            table = visit.table
            rest = table.spec.action_types - {s.action for s in visit.schedules}
            if table.change_token is not None:
                yield from ((action, table.id) for action in rest if self.plugins.follows_changes(table.format, action))
