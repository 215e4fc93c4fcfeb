# SPDX-License-Identifier: Apache-2.0
"""Schedules in SQL: claimed by compare-and-set for one evaluation, then finished with its result."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from lakehand.core.ports import DueSchedules
from lakehand.domain.actions import Action
from lakehand.domain.operations import InstanceId, Operation, OperationId, Status
from lakehand.domain.schedules import EvaluationResult, Schedule
from lakehand.domain.tables import Format, TableId
from lakehand.spi.factories import ProcessTriggerStrategy
from lakehand.store.clock import millis_or_none, span_to_millis, to_millis, to_time
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.partition_hints import remove_used
from lakehand.store.schema import Id, Millis, schedule, tbl
from lakehand.store.table_rows import to_table
from lakehand.store.tables import BY_IDS, chunks

c = schedule.c
NOW = sa.bindparam("now", type_=Millis)
TABLES = sa.bindparam("tables", type_=Id, expanding=True)
IS_SERVED = sa.exists().where(tbl.c.id == c.tbl_id, tbl.c.paused.is_(False), tbl.c.removed.is_(False))
LONGEST = 1.2  # intervals: one, plus the jitter
NEVER = -1  # no time at all, where NULL would equal nothing
IS_CLAIMABLE = sa.and_(c.due <= NOW, sa.or_(c.lease_until.is_(None), c.lease_until <= NOW), IS_SERVED)

DUE = sa.select(c.tbl_id).where(IS_CLAIMABLE).order_by(c.due).limit(sa.bindparam("limit"))
# Rivals saw the same rows: we win those still claimable, and only those.
CLAIM = ListStatement(
    lambda tables: (
        sa.update(schedule)
        .where(c.tbl_id.in_(tables), IS_CLAIMABLE)
        .values(
            lease_holder=sa.bindparam("holder"), lease_token=sa.bindparam("token"), lease_until=sa.bindparam("until")
        )
    ),
    [Id],
)
CLAIMED = ListStatement(
    lambda tables: sa.select(schedule).where(c.tbl_id.in_(tables), c.lease_token == sa.bindparam("token")), [Id]
)
FINISH = (
    sa.update(schedule)
    .where(c.tbl_id == sa.bindparam("table"), c.action == sa.bindparam("done"), c.lease_token == sa.bindparam("token"))
    .values(
        # MySQL assigns from left to right: due must come before wakes.
        due=sa.case((c.wakes > sa.bindparam("seen"), c.due), else_=sa.bindparam("next_due")),
        wakes=c.wakes - sa.bindparam("answered"),
        decide_at=sa.case(
            (sa.func.coalesce(c.decide_at, NEVER) != sa.bindparam("was_asked", type_=Millis), c.decide_at),
            else_=sa.bindparam("ask", type_=Millis),
        ),
        last_start=sa.func.coalesce(sa.bindparam("start", type_=Millis), c.last_start),
        last_look=sa.func.coalesce(sa.bindparam("look", type_=Millis), c.last_look),
        last_decision=sa.func.coalesce(sa.bindparam("decision", type_=Millis), c.last_decision),
        seen_token=sa.func.coalesce(sa.bindparam("saw"), c.seen_token),
        last_reason=sa.func.coalesce(sa.bindparam("new_reason"), c.last_reason),
        lease_holder=None,
        lease_token=None,
        lease_until=None,
    )
)
# One that is due, woken and not yet claimed needs no second wake-up: its evaluation is still to come.
IS_AWAKE = sa.and_(c.due <= NOW, c.wakes > 0, c.lease_until.is_(None))
WAKE = sa.update(schedule).where(~IS_AWAKE).values(due=sa.case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1)
ASK = sa.update(schedule).values(due=sa.case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1, decide_at=NOW)
WAKE_ALL = ListStatement(lambda tables: WAKE.where(c.tbl_id.in_(tables)), [Id])
PAIRS = sa.select(tbl.c.format, c.action).join(tbl, tbl.c.id == c.tbl_id).distinct().order_by(tbl.c.format, c.action)


@dataclass(frozen=True, slots=True)
class SqlSchedules:
    database: Database

    def claim_due(self, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int) -> DueSchedules:
        at = to_millis(now)

        due = sorted(set(self.database.read(lambda tx: tx.scalars(DUE, {"now": at, "limit": limit}).all())))
        if not due:
            return DueSchedules((), {})
        token = str(uuid4())

        def claim(tx: sa.Connection) -> tuple[Sequence[sa.Row[Any]], Sequence[sa.Row[Any]]]:
            CLAIM.run(tx, due, now=at, holder=holder, token=token, until=at + span_to_millis(time_to_live))
            # In this transaction: a table's last notification is not older than the wake-ups of its schedules.
            return CLAIMED.rows(tx, due, token=token), BY_IDS.rows(tx, due)

        claimed, tables = self.database.write(claim)
        schedules = sorted(map(to_schedule, claimed), key=lambda s: (s.due, s.table, s.action))
        return DueSchedules(schedules, {TableId(row.id): to_table(row) for row in tables})

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

    def release(self, holder: InstanceId) -> int:
        free = sa.update(schedule).where(c.lease_holder == holder)
        free = free.values(lease_holder=None, lease_token=None, lease_until=None)
        return self.database.write(lambda tx: tx.execute(free).rowcount)

    def refit(self, strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy], *, now: datetime) -> None:
        at = to_millis(now)

        def write(tx: sa.Connection) -> None:
            for on, action in tx.execute(PAIRS).all():
                misfit = misfits(strategies.get((Format(on), Action(action))), at)
                of_format = sa.exists().where(tbl.c.id == c.tbl_id, tbl.c.format == on)
                tx.execute(sa.update(schedule).where(c.action == action, c.due > at, of_format, misfit).values(due=at))

        self.database.write(write)

    def of_table(self, table: TableId) -> Sequence[Schedule]:
        query = sa.select(schedule).where(c.tbl_id == table).order_by(c.action)
        return [to_schedule(row) for row in self.database.read(lambda tx: tx.execute(query).all())]


def finish_schedules(tx: sa.Connection, results: Sequence[EvaluationResult], now: int) -> None:
    """Write the results of evaluations within someone's transaction."""
    if results:
        ordered = sorted(results, key=lambda result: (result.schedule.table, result.schedule.action))
        tx.execute(FINISH, [result_row(result, now) for result in ordered])
        remove_used(tx, results)


def wake_actions(tx: sa.Connection, woken: Collection[tuple[TableId, Action]], now: int) -> None:
    """Wake these schedules within someone's transaction."""
    tables: dict[Action, list[TableId]] = {}
    for table, action in woken:
        tables.setdefault(action, []).append(table)
    for action in sorted(tables):
        wake(tx, WAKE.where(c.action == str(action)), tables[action], now)


def wake(tx: sa.Connection, statement: sa.Update, tables: Collection[TableId], now: int) -> None:
    for part in chunks(sorted(tables)):
        tx.execute(statement.where(c.tbl_id.in_(TABLES)), {"tables": part, "now": now})


def note_failure(tx: sa.Connection, ended: Operation) -> None:
    """A schedule knows the operation that failed for good, until one of its action succeeds."""
    if ended.status in (Status.FAILED, Status.SUCCEEDED):
        own = sa.and_(c.tbl_id == ended.table, c.action == str(ended.process.action))
        if ended.status is Status.SUCCEEDED:
            tx.execute(sa.update(schedule).where(own, c.failed_operation.is_not(None)).values(failed_operation=None))
        else:
            tx.execute(sa.update(schedule).where(own).values(failed_operation=ended.id))


def forget_failures(tx: sa.Connection, operations: Collection[OperationId]) -> None:
    """Someone has dealt with these failed operations, or they are gone."""
    if operations:
        known = c.failed_operation.in_(sorted(operations))
        tx.execute(sa.update(schedule).where(known).values(failed_operation=None))


def misfits(strategy: ProcessTriggerStrategy | None, now: int) -> sa.ColumnElement[bool]:
    if strategy is None:
        return sa.true()
    waits_long = c.due > now + LONGEST * span_to_millis(strategy.interval) if strategy.interval else sa.false()
    has_missed = sa.exists().where(tbl.c.id == c.tbl_id, tbl.c.change_token != c.seen_token)
    return sa.or_(waits_long, has_missed if strategy.on_new_snapshot else sa.false())


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
        "decision": millis_or_none(result.decided_at),
        "saw": result.saw,
        "new_reason": result.reason,
    }


def to_schedule(row: sa.Row[Any]) -> Schedule:
    """By position, in the order of the schema."""
    table, action, due, wakes, start, evaluated, decision, ask, seen, reason, _, token, _, failed = row
    return Schedule(
        table=table, action=Action(action), due=to_time(due), wakes=wakes, last_start=to_time(start),
        evaluated_at=to_time(evaluated), last_decision=to_time(decision), decide_at=to_time(ask), seen_token=seen,
        last_reason=reason, token=token, failed_operation=failed,
    )  # fmt: skip
