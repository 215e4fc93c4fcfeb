# SPDX-License-Identifier: Apache-2.0
"""Schedules in SQL: claimed by compare-and-set for one evaluation, then finished with its result."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Update,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    or_,
    select,
    true,
    update,
)

from lakehand.core.ports import DueSchedules
from lakehand.domain.actions import Action
from lakehand.domain.operations import InstanceId
from lakehand.domain.schedules import EvaluationResult, Schedule
from lakehand.domain.tables import Format, TableId
from lakehand.spi.factories import ProcessTriggerStrategy
from lakehand.store.clock import millis_or_none, span_to_millis, to_millis, to_time
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.schema import Id, Millis, schedule, tbl
from lakehand.store.table_rows import to_table
from lakehand.store.tables import BY_IDS, chunks

c = schedule.c
NOW = bindparam("now", type_=Millis)
TABLES = bindparam("tables", type_=Id, expanding=True)
IS_SERVED = exists().where(tbl.c.id == c.tbl_id, tbl.c.paused.is_(False), tbl.c.removed.is_(False))
LONGEST = 1.2  # intervals: one, plus the jitter
NEVER = -1  # no time at all, where NULL would equal nothing
IS_CLAIMABLE = and_(c.due <= NOW, or_(c.lease_until.is_(None), c.lease_until <= NOW), IS_SERVED)

DUE = select(c.tbl_id).where(IS_CLAIMABLE).order_by(c.due).limit(bindparam("limit"))
# Rivals saw the same rows: we win those still claimable, and only those.
CLAIM = ListStatement(
    lambda tables: (
        update(schedule)
        .where(c.tbl_id.in_(tables), IS_CLAIMABLE)
        .values(lease_holder=bindparam("holder"), lease_token=bindparam("token"), lease_until=bindparam("until"))
    ),
    [Id],
)
CLAIMED = ListStatement(
    lambda tables: select(schedule).where(c.tbl_id.in_(tables), c.lease_token == bindparam("token")), [Id]
)
FINISH = (
    update(schedule)
    .where(c.tbl_id == bindparam("table"), c.action == bindparam("done"), c.lease_token == bindparam("token"))
    .values(
        # MySQL assigns from left to right: due must come before wakes.
        due=case((c.wakes > bindparam("seen"), c.due), else_=bindparam("next_due")),
        wakes=c.wakes - bindparam("answered"),
        decide_at=case(
            (func.coalesce(c.decide_at, NEVER) != bindparam("was_asked", type_=Millis), c.decide_at),
            else_=bindparam("ask", type_=Millis),
        ),
        last_start=func.coalesce(bindparam("start", type_=Millis), c.last_start),
        last_look=func.coalesce(bindparam("look", type_=Millis), c.last_look),
        last_decision=func.coalesce(bindparam("decision", type_=Millis), c.last_decision),
        seen_token=func.coalesce(bindparam("saw"), c.seen_token),
        last_reason=func.coalesce(bindparam("said"), c.last_reason),
        lease_holder=None,
        lease_token=None,
        lease_until=None,
    )
)
# One that is due, woken and not yet claimed needs no second wake-up: its evaluation is still to come.
IS_AWAKE = and_(c.due <= NOW, c.wakes > 0, c.lease_until.is_(None))
WAKE = update(schedule).where(~IS_AWAKE).values(due=case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1)
ASK = update(schedule).values(due=case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1, decide_at=NOW)
WAKE_ALL = ListStatement(lambda tables: WAKE.where(c.tbl_id.in_(tables)), [Id])
PAIRS = select(tbl.c.format, c.action).join(tbl, tbl.c.id == c.tbl_id).distinct().order_by(tbl.c.format, c.action)


@dataclass(frozen=True, slots=True)
class SqlSchedules:
    database: Database

    def claim_due(self, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int) -> DueSchedules:
        at = to_millis(now)

        def read(tx: Connection) -> Sequence[Row[Any]]:
            due = sorted(set(tx.scalars(DUE, {"now": at, "limit": limit})))
            return BY_IDS.rows(tx, due) if due else []

        rows = self.database.read(read)
        if not rows:
            return DueSchedules((), {})
        tables, token = [row.id for row in rows], str(uuid4())

        def claim(tx: Connection) -> Sequence[Row[Any]]:
            CLAIM.run(tx, tables, now=at, holder=holder, token=token, until=at + span_to_millis(time_to_live))
            return CLAIMED.rows(tx, tables, token=token)

        schedules = sorted(map(to_schedule, self.database.write(claim)), key=claim_order)
        return DueSchedules(schedules, {TableId(row.id): to_table(row) for row in rows})

    def finish(self, results: Sequence[EvaluationResult], *, now: datetime) -> None:
        if results:
            self.database.write(lambda tx: finish_schedules(tx, results, to_millis(now)))

    def wake(
        self, tables: Collection[TableId], *, now: datetime, action: Action | None = None, decide: bool = False
    ) -> None:
        statement = ASK if decide else WAKE
        if action is not None:
            statement = statement.where(c.action == str(action))
        if tables:
            self.database.write(lambda tx: wake(tx, statement, tables, to_millis(now)))

    def refit(self, strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy], *, now: datetime) -> None:
        at = to_millis(now)

        def write(tx: Connection) -> None:
            for on, action in tx.execute(PAIRS).all():
                misfit = misfits(strategies.get((Format(on), Action(action))), at)
                of_format = exists().where(tbl.c.id == c.tbl_id, tbl.c.format == on)
                tx.execute(update(schedule).where(c.action == action, c.due > at, of_format, misfit).values(due=at))

        self.database.write(write)

    def of_table(self, table: TableId) -> Sequence[Schedule]:
        query = select(schedule).where(c.tbl_id == table).order_by(c.action)
        return [to_schedule(row) for row in self.database.read(lambda tx: tx.execute(query).all())]


def finish_schedules(tx: Connection, results: Sequence[EvaluationResult], now: int) -> None:
    """Write the results of evaluations within someone's transaction."""
    if results:
        tx.execute(FINISH, [result_row(result, now) for result in sorted(results, key=identity)])


def wake_actions(tx: Connection, woken: Collection[tuple[TableId, Action]], now: int) -> None:
    """Wake these schedules within someone's transaction."""
    tables: dict[Action, list[TableId]] = {}
    for table, action in woken:
        tables.setdefault(action, []).append(table)
    for action in sorted(tables):
        wake(tx, WAKE.where(c.action == str(action)), tables[action], now)


def wake(tx: Connection, statement: Update, tables: Collection[TableId], now: int) -> None:
    for part in chunks(sorted(tables)):
        tx.execute(statement.where(c.tbl_id.in_(TABLES)), {"tables": part, "now": now})


def misfits(strategy: ProcessTriggerStrategy | None, now: int) -> ColumnElement[bool]:
    if strategy is None:
        return true()
    waits_long = c.due > now + LONGEST * span_to_millis(strategy.interval) if strategy.interval else false()
    has_missed = exists().where(tbl.c.id == c.tbl_id, tbl.c.change_token != c.seen_token)
    return or_(waits_long, has_missed if strategy.on_new_snapshot else false())


def claim_order(schedule: Schedule) -> tuple[datetime, TableId, Action]:
    return schedule.due, schedule.table, schedule.action


def identity(result: EvaluationResult) -> tuple[TableId, Action]:
    return result.schedule.table, result.schedule.action


def result_row(result: EvaluationResult, now: int) -> dict[str, Any]:
    known = result.schedule
    kept = known.decide_at if result.deferred else result.decide_at
    return {
        "table": known.table,
        "done": str(known.action),
        "token": known.token,
        "seen": known.wakes,
        "answered": 0 if result.deferred else known.wakes,
        "next_due": to_millis(result.next_due),
        "was_asked": NEVER if known.decide_at is None else to_millis(known.decide_at),
        "ask": millis_or_none(kept),
        "start": now if result.started else None,
        "look": None if result.deferred else now,
        "decision": now if result.decided else None,
        "saw": result.saw,
        "said": result.reason,
    }


def to_schedule(row: Row[Any]) -> Schedule:
    """By position, in the order of the schema."""
    table, action, due, wakes, start, look, decision, ask, seen, reason, _, token, _ = row
    return Schedule(
        table=table, action=Action(action), due=to_time(due), wakes=wakes, last_start=to_time(start),
        last_look=to_time(look), last_decision=to_time(decision), decide_at=to_time(ask), seen_token=seen,
        last_reason=reason, token=token,
    )  # fmt: skip
