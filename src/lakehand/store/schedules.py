# SPDX-License-Identifier: Apache-2.0
"""Schedules in SQL: claimed by compare-and-set for one look, then given back with what the look said."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, and_, bindparam, case, exists, func, or_, select, update

from lakehand.domain.actions import Action
from lakehand.domain.operations import InstanceId, LeaseToken
from lakehand.domain.schedules import Look, Schedule
from lakehand.domain.tables import TableId
from lakehand.store.clock import millis_or_none, span_to_millis, to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.prepared import Listed
from lakehand.store.schema import Id, Millis, schedule, tbl
from lakehand.store.tables import chunks

c = schedule.c
NOW = bindparam("now", type_=Millis())
TABLES = bindparam("tables", type_=Id, expanding=True)
IS_SERVED = exists().where(tbl.c.id == c.tbl_id, tbl.c.paused.is_(False), tbl.c.removed.is_(False))
IS_CLAIMABLE = and_(c.due <= NOW, or_(c.lease_until.is_(None), c.lease_until <= NOW), IS_SERVED)

DUE = select(c.tbl_id).where(IS_CLAIMABLE).order_by(c.due).limit(bindparam("limit"))
# Rivals saw the same rows: we win those still claimable, and only those.
CLAIM = (
    update(schedule)
    .where(c.tbl_id.in_(TABLES), IS_CLAIMABLE)
    .values(lease_holder=bindparam("holder"), lease_token=bindparam("token"), lease_until=bindparam("until"))
)
CLAIMED = (
    select(schedule)
    .where(c.tbl_id.in_(TABLES), c.lease_token == bindparam("token"))
    .order_by(c.due, c.tbl_id, c.action)
)
FINISH = (
    update(schedule)
    .where(c.tbl_id == bindparam("table"), c.action == bindparam("done"), c.lease_token == bindparam("token"))
    .values(
        # MySQL assigns from left to right: due is decided before the wakes are counted off.
        due=case((c.wakes > bindparam("seen"), c.due), else_=bindparam("next_due")),
        wakes=c.wakes - bindparam("answered"),
        last_start=func.coalesce(bindparam("start"), c.last_start),
        last_look=bindparam("look"),
        last_reason=func.coalesce(bindparam("said"), c.last_reason),
        lease_holder=None,
        lease_token=None,
        lease_until=None,
    )
)
# Looks that found nothing new say nothing: one statement serves all tables that are due again together.
FINISH_QUIET = (
    update(schedule)
    .where(c.tbl_id.in_(TABLES), c.lease_token == bindparam("token"))
    .values(
        due=case((c.wakes > 0, c.due), else_=bindparam("next_due")),
        last_look=bindparam("look"),
        lease_holder=None,
        lease_token=None,
        lease_until=None,
    )
)
# One that is due, asked for and not yet being looked at needs no second wake: its look is still to come.
IS_AWAKE = and_(c.due <= NOW, c.wakes > 0, c.lease_until.is_(None))
WAKE = update(schedule).where(~IS_AWAKE).values(due=case((c.due > NOW, NOW), else_=c.due), wakes=c.wakes + 1)
WAKE_ALL = Listed(lambda tables: WAKE.where(c.tbl_id.in_(tables)), [Id])
NEXT_DUE = select(c.due).where(c.lease_until.is_(None), IS_SERVED).order_by(c.due).limit(1)
NEXT_FREE = select(func.min(c.lease_until))


@dataclass(frozen=True, slots=True)
class SqlSchedules:
    database: Database

    def claim_due(self, *, holder: InstanceId, now: datetime, hold: timedelta, limit: int) -> Sequence[Schedule]:
        """Due schedules of tables that are neither paused nor removed, most overdue first, each with a fresh token.

        All due actions of one table come together, so there may be a few more than the limit.
        """
        at = to_millis(now)
        due = self.database.read(lambda tx: tx.scalars(DUE, {"now": at, "limit": limit}).all())
        if not due:
            return []
        seen = {"tables": sorted(set(due)), "token": str(uuid4())}
        lease = {"now": at, "holder": holder, "until": at + span_to_millis(hold)}

        def claim(tx: Connection) -> Sequence[Row[Any]]:
            tx.execute(CLAIM, seen | lease)
            return tx.execute(CLAIMED, seen).all()

        return [to_schedule(row) for row in self.database.write(claim)]

    def finish(self, looks: Sequence[Look], *, now: datetime) -> None:
        """Write the outcomes in one transaction, each fenced by its token.

        The wakes that the look has seen (``schedule.wakes``) are answered and taken off; one that came meanwhile keeps
        the schedule due. ``decide_next`` leaves one wake behind without making it due earlier.
        """
        quiet, told = apart(looks)
        rows = [outcome(look, to_millis(now)) for look in sorted(told, key=identity)]
        groups = [
            {"token": token, "next_due": to_millis(due), "look": to_millis(now), "tables": part}
            for (token, due), tables in quiet.items()
            for part in chunks(sorted(tables))
        ]

        def write(tx: Connection) -> None:
            if rows:
                tx.execute(FINISH, rows)  # first: it gives their tokens back, so that the rest leaves them alone
            for group in groups:
                tx.execute(FINISH_QUIET, group)

        if looks:
            self.database.write(write)

    def wake(self, tables: Collection[TableId], *, now: datetime, action: Action | None = None) -> None:
        """Make these due now."""
        statement = WAKE.where(c.tbl_id.in_(TABLES))
        statement = statement if action is None else statement.where(c.action == str(action))

        def write(tx: Connection) -> None:
            for part in chunks(sorted(tables)):
                tx.execute(statement, {"tables": part, "now": to_millis(now)})

        if tables:
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


Quiet = dict[tuple[LeaseToken | None, datetime], list[TableId]]


def apart(looks: Sequence[Look]) -> tuple[Quiet, list[Look]]:
    """Tables of which nothing is told and whose looks come again together, by token and time; and all other looks."""
    silent: dict[TableId, list[Look]] = {}
    told = []
    for look in looks:
        if look.reason is None and not (look.schedule.wakes or look.started or look.decide_next):
            silent.setdefault(look.schedule.table, []).append(look)
        else:
            told.append(look)
    quiet: Quiet = {}
    for table, own in silent.items():
        first = own[0]
        if all(look.next_due == first.next_due and look.schedule.token == first.schedule.token for look in own):
            quiet.setdefault((first.schedule.token, first.next_due), []).append(table)
        else:
            told += own
    return quiet, told


def identity(look: Look) -> tuple[TableId, Action]:
    return look.schedule.table, look.schedule.action


def outcome(look: Look, now: int) -> dict[str, Any]:
    seen = look.schedule.wakes
    return {
        "table": look.schedule.table,
        "done": str(look.schedule.action),
        "token": look.schedule.token,
        "seen": seen,
        "answered": seen - 1 if look.decide_next else seen,
        "next_due": millis_or_none(look.next_due),
        "start": now if look.started else None,
        "look": now,
        "said": look.reason,
    }


def to_schedule(row: Row[Any]) -> Schedule:
    return Schedule(
        table=TableId(row.tbl_id),
        action=Action(row.action),
        due=to_time(row.due),
        wakes=row.wakes,
        last_start=to_time(row.last_start),
        last_look=to_time(row.last_look),
        last_reason=row.last_reason,
        token=LeaseToken(row.lease_token) if row.lease_token else None,
    )
