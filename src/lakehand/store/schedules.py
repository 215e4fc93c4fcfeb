# SPDX-License-Identifier: Apache-2.0
"""Schedules in SQL: claimed by compare-and-set for one look, then given back with what the look said."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
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

from lakehand.domain.actions import Action
from lakehand.domain.operations import InstanceId
from lakehand.domain.schedules import Look, Schedule
from lakehand.domain.tables import Format, TableId
from lakehand.spi.factories import ProcessTriggerStrategy
from lakehand.store.clock import millis_or_none, span_to_millis, to_millis, to_time
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.schema import Id, Millis, schedule, tbl
from lakehand.store.tables import chunks

c = schedule.c
NOW = bindparam("now", type_=Millis())
TABLES = bindparam("tables", type_=Id, expanding=True)
IS_SERVED = exists().where(tbl.c.id == c.tbl_id, tbl.c.paused.is_(False), tbl.c.removed.is_(False))
LONGEST = 1.2  # intervals: one, and the bit that each table waits longer
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
        # MySQL assigns from left to right: due is decided before the wakes are counted off.
        due=case((c.wakes > bindparam("seen"), c.due), else_=bindparam("next_due")),
        wakes=c.wakes - bindparam("answered"),
        decide_at=case(
            (func.coalesce(c.decide_at, NEVER) != bindparam("was_asked", type_=Millis()), c.decide_at),
            else_=bindparam("ask", type_=Millis()),
        ),
        last_start=func.coalesce(bindparam("start", type_=Millis()), c.last_start),
        last_look=func.coalesce(bindparam("look", type_=Millis()), c.last_look),
        last_decision=func.coalesce(bindparam("decision", type_=Millis()), c.last_decision),
        seen_token=func.coalesce(bindparam("saw"), c.seen_token),
        last_reason=func.coalesce(bindparam("said"), c.last_reason),
        lease_holder=None,
        lease_token=None,
        lease_until=None,
    )
)
# One that is due, asked for and not yet being looked at needs no second wake: its look is still to come.
IS_AWAKE = and_(c.due <= NOW, c.wakes > 0, c.lease_until.is_(None))
WAKE = update(schedule).where(~IS_AWAKE).values(due=case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1)
ASK = update(schedule).values(due=case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1, decide_at=NOW)
WAKE_ALL = ListStatement(lambda tables: WAKE.where(c.tbl_id.in_(tables)), [Id])
PAIRS = select(tbl.c.format, c.action).join(tbl, tbl.c.id == c.tbl_id).distinct().order_by(tbl.c.format, c.action)
NEXT_DUE = select(c.due).where(c.lease_until.is_(None), IS_SERVED).order_by(c.due).limit(1)
NEXT_FREE = select(func.min(c.lease_until))


@dataclass(frozen=True, slots=True)
class SqlSchedules:
    database: Database

    def claim_due(
        self, *, holder: InstanceId, now: datetime, time_to_live: timedelta, limit: int
    ) -> Sequence[Schedule]:
        """Due schedules of tables that are neither paused nor removed, most overdue first, each with a fresh token.

        All due actions of one table come together, so there may be a few more than the limit.
        """
        at = to_millis(now)
        due = self.database.read(lambda tx: tx.scalars(DUE, {"now": at, "limit": limit}).all())
        if not due:
            return []
        tables, token = sorted(set(due)), str(uuid4())

        def claim(tx: Connection) -> Sequence[Row[Any]]:
            CLAIM.run(tx, tables, now=at, holder=holder, token=token, until=at + span_to_millis(time_to_live))
            return CLAIMED.rows(tx, tables, token=token)

        return sorted(map(to_schedule, self.database.write(claim)), key=claim_order)

    def finish(self, looks: Sequence[Look], *, now: datetime) -> None:
        """Write the outcomes in one transaction, each fenced by its token.

        The wakes that the look has seen (``schedule.wakes``) are answered and taken off; one that came meanwhile keeps
        the schedule due, and a decision that was asked for meanwhile stays asked for.
        """
        rows = [outcome(look, to_millis(now)) for look in sorted(looks, key=identity)]
        if rows:
            self.database.write(lambda tx: tx.execute(FINISH, rows))

    def wake(
        self, tables: Collection[TableId], *, now: datetime, action: Action | None = None, decide: bool = False
    ) -> None:
        """Make these due now. ``decide``: their factories are to be asked, whatever the tables look like."""
        statement = (ASK if decide else WAKE).where(c.tbl_id.in_(TABLES))
        statement = statement if action is None else statement.where(c.action == str(action))

        def write(tx: Connection) -> None:
            for part in chunks(sorted(tables)):
                tx.execute(statement, {"tables": part, "now": to_millis(now)})

        if tables:
            self.database.write(write)

    def refit(self, strategies: Mapping[tuple[Format, Action], ProcessTriggerStrategy], *, now: datetime) -> None:
        """Compare what earlier processes have written with the strategies of this one: what does not fit is due now.

        That is a schedule that nobody serves, one that waits longer than its interval, and one that follows changes
        and has not seen the last one.
        """
        at = to_millis(now)

        def write(tx: Connection) -> None:
            for on, action in tx.execute(PAIRS).all():
                misfit = misfits(strategies.get((Format(on), action_of(action))), at)
                of_format = exists().where(tbl.c.id == c.tbl_id, tbl.c.format == on)
                tx.execute(update(schedule).where(c.action == action, c.due > at, of_format, misfit).values(due=at))

        self.database.write(write)

    def of_table(self, table: TableId) -> Sequence[Schedule]:
        query = select(schedule).where(c.tbl_id == table).order_by(c.action)
        return [to_schedule(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def next_due(self) -> datetime | None:
        """When the next free schedule is due or the next look that someone holds runs out."""

        def read(tx: Connection) -> Sequence[int | None]:
            return [tx.execute(NEXT_DUE).scalar_one_or_none(), tx.execute(NEXT_FREE).scalar_one()]

        times = [time for time in self.database.read(read) if time is not None]
        return to_time(min(times)) if times else None


def misfits(strategy: ProcessTriggerStrategy | None, now: int) -> ColumnElement[bool]:
    if strategy is None:
        return true()
    waits_long = c.due > now + LONGEST * span_to_millis(strategy.interval) if strategy.interval else false()
    has_missed = exists().where(tbl.c.id == c.tbl_id, tbl.c.change_token != c.seen_token)
    return or_(waits_long, has_missed if strategy.on_new_snapshot else false())


def claim_order(schedule: Schedule) -> tuple[datetime, TableId, Action]:
    return schedule.due, schedule.table, schedule.action


def identity(look: Look) -> tuple[TableId, Action]:
    return look.schedule.table, look.schedule.action


def outcome(look: Look, now: int) -> dict[str, Any]:
    known = look.schedule
    kept = known.decide_at if look.put_off else look.decide_at
    return {
        "table": known.table,
        "done": str(known.action),
        "token": known.token,
        "seen": known.wakes,
        "answered": 0 if look.put_off else known.wakes,
        "next_due": to_millis(look.next_due),
        "was_asked": NEVER if known.decide_at is None else to_millis(known.decide_at),
        "ask": millis_or_none(kept),
        "start": now if look.started else None,
        "look": None if look.put_off else now,
        "decision": now if look.decided else None,
        "saw": look.saw,
        "said": look.reason,
    }


def to_schedule(row: Row[Any]) -> Schedule:
    """In the order of the schema, by place."""
    table, action, due, wakes, start, look, decision, ask, seen, reason, _, token, _ = row
    return Schedule(
        table=table,
        action=action_of(action),
        due=to_time(due),
        wakes=wakes,
        last_start=start and to_time(start),
        last_look=look and to_time(look),
        last_decision=decision and to_time(decision),
        decide_at=ask and to_time(ask),
        seen_token=seen,
        last_reason=reason,
        token=token,
    )


@lru_cache(maxsize=1000)
def action_of(name: str) -> Action:
    return Action(name)
