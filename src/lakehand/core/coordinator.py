# SPDX-License-Identifier: Apache-2.0
"""Turns due (table, action) pairs into pending operations, or into a reason why not. Safe in every instance at once."""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from lakehand.core.lanes import Lanes, Task
from lakehand.core.operations_desk import service_instant
from lakehand.core.plugins import Plugins
from lakehand.core.ports import Metrics, Store
from lakehand.core.runtimes import Runtimes, Seen
from lakehand.core.sweep import News, Sweep
from lakehand.core.timing import Question
from lakehand.core.turns import Turn
from lakehand.core.visits import PUT_OFF, Outcome, Part, Visit, by_table, look_failed, put_off, unreadable
from lakehand.domain.actions import Action
from lakehand.domain.errors import LakehandError, NotFound
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, NewOperation, Operation, Status
from lakehand.domain.processes import Skip, TableProcess
from lakehand.domain.schedules import Claimed, Look, Resting, Schedule
from lakehand.domain.tables import Format, Table, TableId

log = logging.getLogger(__name__)
T = TypeVar("T")
BATCH = 2000
HOLD = timedelta(minutes=2)
STALE = 60.0  # seconds after which a visit that still waits for its turn is put off
PATIENCE = 1.0  # seconds for those that are not back yet, before the others are stored and new ones are sent
MOST_WAITING = 100  # operations of one table and action that may wait
STILL_OUT = "the last look has not come back yet"


class Back(NamedTuple):
    """What came back since the last time."""

    outcomes: list[Outcome]
    quiet: list[Resting]
    news: list[News]
    late: list[Resting]

    def __bool__(self) -> bool:
        return any(len(part) for part in self)


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
    on_stored: Callable[[], None]
    _back: deque[Outcome] = field(default_factory=deque)
    _turn: Turn = field(default_factory=Turn)  # the batch that is out
    _met: set[TableId] = field(default_factory=set)  # tables that were looked at in full: strategies may be new
    _served: dict[tuple[str, str], bool] = field(default_factory=dict)  # by format and actions: all plugins are on
    sweep: Sweep = field(init=False)
    _out: set[object] = field(default_factory=set)  # tables, and (table, factory) pairs, that a thread is busy with

    def __post_init__(self) -> None:
        self.sweep = Sweep(runtimes=self.runtimes, lanes=self.lanes, out=self._out)

    def run_once(self) -> bool:
        """Send one batch, and store what the one before brought back meanwhile. True when the batch was full.

        Then there may be more, and its outcomes are stored while the next one is out; the last one is waited for.
        """
        now = self.store.clock.now()
        claimed = self.store.schedules.claim(
            holder=self.holder, now=now, hold=HOLD, limit=BATCH, may_rest=self.may_rest
        )
        self._turn.wait(PATIENCE)
        back = self.take_back()
        self._turn = self.send(claimed, now)
        self.settle(back, now)
        if claimed.count >= BATCH:
            return True
        while self._turn.wait(PATIENCE) and (back := self.take_back()):
            self.settle(back, now)
        self._turn = Turn()
        self.settle(self.take_back(), now)
        return False

    def may_rest(self, table: TableId, on: str, actions: str) -> bool:
        """Whether this process has looked at all actions of the table before, and all their plugins are on."""
        if table not in self._met:
            return False
        known = self._served.get((on, actions))
        if known is None:
            pairs = [(Format(on), Action(one)) for one in actions.split(",") if one]
            known = self._served[on, actions] = all(pair in self.plugins.factories for pair in pairs)
        return known

    def send(self, claimed: Claimed, now: datetime) -> Turn:
        """Each table to the lane of its format. Nobody waits for a lane that still owes something."""
        turn, owing = Turn(), self.lanes.busy()
        tasks: dict[str, list[Task]] = {}
        for lane, resting in by_lane(claimed.resting).items():
            tasks[lane] = list(self.sweep.tasks(lane, resting, None if lane in owing else turn))
        for visit in self.visits(claimed.due, now, turn, owing):
            tasks.setdefault(lane_of(visit.table.format), []).extend(self.task_of(visit))
        turn.expect(sum(len(own) for lane, own in tasks.items() if lane not in owing))
        for lane, own in tasks.items():
            self.lanes.post_all(lane, own)
        return turn

    def visits(
        self, due: Sequence[Schedule], now: datetime, turn: Turn | None, owing: Collection[str] = ()
    ) -> Iterator[Visit]:
        tables, began = self.store.tables.by_ids({s.table for s in due}) if due else {}, time.monotonic()
        for key, schedules in by_table(due):
            if key in tables:
                awaited = None if lane_of(tables[key].format) in owing else turn
                yield Visit(table=tables[key], schedules=tuple(schedules), now=now, began=began, turn=awaited)

    def task_of(self, visit: Visit) -> Iterator[Task]:
        """None for a table that is still out, or while its lane is full."""
        if visit.table.id in self._out:
            self._back.append(put_off(visit.table, visit.schedules, visit.now, STILL_OUT))
        elif visit.turn is None and not self.lanes.has_room(lane_of(visit.table.format)):
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
        back(visit.turn)

    def visit_left(self, visit: Visit, why: str) -> None:
        """The thread that hangs still counts as out, so that no second one hangs at the same table."""
        self._back.append(unreadable(visit, why))
        back(visit.turn)

    def look_at(self, visit: Visit) -> Outcome:
        try:
            token = self.runtimes.probe(visit.table)
        except Exception as error:
            return unreadable(visit, error)
        return self.look_further(visit, token)

    def look_further(self, visit: Visit, token: str) -> Outcome:
        self._met.add(visit.table.id)
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
            factory = self.plugins.factory(table.format, schedule.action)
            strategy = self.plugins.strategy(table.format, schedule.action)
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
            self._back.append(put_off(table, schedules, part.visit.now, STILL_OUT))
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
        back(part.visit.turn)

    def ask_left(self, part: Part, why: str) -> None:
        table, now = part.visit.table, part.visit.now
        looks = [look_failed(table, q.schedule, TimeoutError(why), now) for q in list(part.open)]
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
        reason = f"operation {operation.id} was stored: {process.reason}"
        return question.started(reason, is_a_plan=process.instant is not None)

    def take_up_again(self, operation: Operation, now: datetime) -> bool:
        """Its plan was not there, and now it is: for instance someone submitted it early."""
        why = "the plan that was gone is there again"
        told = Event(kind="operation.reopened", message=why, table=operation.table, operation=operation.id)
        self.store.operations.reopen(operation.reopened(at=now, reason=why), now=now, event=told)
        return True

    def take_back(self) -> Back:
        return Back(
            outcomes=taken(self._back), quiet=taken(self.sweep.quiet), news=taken(self.sweep.news),
            late=taken(self.sweep.late),
        )  # fmt: skip

    def settle(self, back: Back, now: datetime) -> None:
        """Store all that came back, in a few statements. Tables with news are asked about."""
        outcomes = [*back.outcomes, *self.follow_up(back.news, now)]
        visits = [(o.visit, o.token) for o in outcomes if o.visit is not None]
        changed = {v: token for v, token in visits if token is not None and token != v.table.change_token}
        tokens = {visit.table.id: token for visit, token in changed.items()}
        tokens.update({one.table: one.seen_token for one in back.quiet if one.seen_token != one.change_token})
        looked = [*(v.table.id for v, _ in visits), *(one.table for one in back.quiet)]
        if looked:
            self.store.tables.looked(looked, tokens, now=now)
            self.metrics.looked(len(looked), len(tokens))
        self.wake_others(changed, now)
        self.rest(back, now)
        looks = [look for outcome in outcomes for look in outcome.looks]
        if looks:
            self.store.schedules.finish(looks, now=self.store.clock.now())
        if any(look.started for look in looks):
            self.on_stored()

    def follow_up(self, news: Sequence[News], now: datetime) -> list[Outcome]:
        """Tables that are not at rest any more: now their schedules are worth reading."""
        told = {one.table.table: one for one in news}
        due = self.store.schedules.claimed([one.table for one in news]) if news else []
        return [self.told(visit, told[visit.table.id]) for visit in self.visits(due, now, self._turn)]

    def told(self, visit: Visit, news: News) -> Outcome:
        if news.token is None:
            return unreadable(visit, news.error or OSError("nobody knows why"))
        return self.look_further(visit, news.token)

    def rest(self, back: Back, now: datetime) -> None:
        by_heartbeat: dict[int, list[Resting]] = {}
        for one in back.quiet:
            by_heartbeat.setdefault(one.heartbeat, []).append(one)
        for heartbeat, tables in by_heartbeat.items():
            self.store.schedules.rest(tables, next_due=now + timedelta(milliseconds=heartbeat), now=now)
        self.store.schedules.rest(back.late, next_due=now + PUT_OFF, now=None)

    def wake_others(self, changed: Iterable[Visit], now: datetime) -> None:
        """A change that was seen on the way to one action is news for all that wait for changes of the table."""
        tables: dict[Action, list[TableId]] = {}
        for visit in changed:
            for action in self.others(visit.table, {s.action for s in visit.schedules}):
                tables.setdefault(action, []).append(visit.table.id)
        for action, ids in tables.items():
            self.store.schedules.wake(ids, now=now, action=action)

    def others(self, table: Table, looked_at: set[Action]) -> list[Action]:
        """After the first look ever there are none: all actions of a new table are due together."""
        rest = sorted(table.spec.action_types - looked_at) if table.change_token is not None else []
        return [action for action in rest if self.fires_on_change(table, action)]

    def fires_on_change(self, table: Table, action: Action) -> bool:
        try:
            return self.plugins.strategy(table.format, action).on_new_snapshot
        except NotFound:
            return False


def lane_of(on: Format) -> str:
    return f"reads {on}"


def by_lane(resting: Sequence[Resting]) -> Mapping[str, list[Resting]]:
    formats: dict[Format, list[Resting]] = {}
    for one in resting:
        formats.setdefault(one.format, []).append(one)
    return {lane_of(on): tables for on, tables in formats.items()}


def taken(queue: deque[T]) -> list[T]:
    return [queue.popleft() for _ in range(len(queue))]


def expect(turn: Turn | None) -> None:
    if turn is not None:
        turn.expect()


def back(turn: Turn | None) -> None:
    if turn is not None:
        turn.back()
