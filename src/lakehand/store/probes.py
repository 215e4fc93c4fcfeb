# SPDX-License-Identifier: Apache-2.0
"""Probes in SQL: one row for each table, claimed by compare-and-set, finished with the tokens that were seen."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, bindparam, case, func, select, update

from lakehand.core.ports import DueProbe
from lakehand.domain.actions import Action
from lakehand.domain.health import HealthPoint
from lakehand.domain.schedules import EvaluationResult
from lakehand.domain.tables import TableId
from lakehand.store.clock import span_to_millis, to_millis
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.documents import storable_text
from lakehand.store.health import HealthWriter
from lakehand.store.schedules import finish_schedules, wake_actions
from lakehand.store.schema import Id, Millis, tbl

c = tbl.c
LONGEST_PROBLEM = 2000  # characters
NOW = bindparam("now", type_=Millis)
NEXT = bindparam("next", type_=Millis)
IS_DUE = and_(c.probe_due <= NOW, c.paused.is_(False), c.removed.is_(False))
DUE = select(c.id).where(IS_DUE).order_by(c.probe_due).limit(bindparam("limit"))
# Rivals saw the same rows: we win those still due, and only those. If we die, they are due again a little later.
CLAIM = ListStatement(
    lambda tables: update(tbl).where(c.id.in_(tables), IS_DUE).values(probe_due=NEXT, probe_token=bindparam("token")),
    [Id],
)
WHAT = (
    c.id, c.format, c.base_path, c.catalog, c.db_name, c.table_name, c.heartbeat_timeout, c.change_token, c.problem,
    c.problem_stays,
)  # fmt: skip
CLAIMED = ListStatement(lambda tables: select(*WHAT).where(c.id.in_(tables), c.probe_token == bindparam("token")), [Id])
STAYS = c.problem_stays.is_(True)
READ: dict[str, Any] = {
    "problem": case((STAYS, c.problem), else_=None), "problem_time": case((STAYS, c.problem_time), else_=None),
}  # fmt: skip
PROBED = ListStatement(
    lambda tables: update(tbl).where(c.id.in_(tables)).values(look_time=NOW, probe_due=NEXT, **READ), [Id]
)
UNREADABLE = (
    update(tbl)
    .where(c.id == bindparam("table"))
    .values(look_time=NOW, probe_due=NEXT, problem=bindparam("why"), problem_time=func.coalesce(c.problem_time, NOW))
)
NOT_UNDERSTOOD = (
    update(tbl)
    .where(c.id == bindparam("table"))
    .values(problem=bindparam("why"), problem_time=func.coalesce(c.problem_time, NOW), problem_stays=True)
)
UNDERSTOOD = ListStatement(
    lambda tables: update(tbl).where(c.id.in_(tables)).values(problem=None, problem_time=None, problem_stays=None),
    [Id],
)
DEFER = ListStatement(lambda tables: update(tbl).where(c.id.in_(tables)).values(probe_due=NEXT), [Id])
CHANGED = update(tbl).where(c.id == bindparam("table")).values(change_token=bindparam("seen"), change_time=NOW)


@dataclass(frozen=True, slots=True)
class SqlProbes:
    database: Database
    health: HealthWriter

    def claim_due(self, *, now: datetime, time_to_live: timedelta, limit: int) -> Sequence[DueProbe]:
        at = to_millis(now)
        tables = sorted(self.database.read(lambda tx: tx.scalars(DUE, {"now": at, "limit": limit}).all()))
        taken = {"now": at, "next": at + span_to_millis(time_to_live), "token": str(uuid4())}

        def claim(tx: Connection) -> Sequence[DueProbe]:
            CLAIM.run(tx, tables, **taken)
            return [DueProbe(*row) for row in CLAIMED.rows(tx, tables, token=taken["token"])]

        return self.database.write(claim) if tables else []

    def finish(
        self, next_due: Mapping[TableId, datetime], tokens: Mapping[TableId, str], *, now: datetime,
        woken: Collection[tuple[TableId, Action]] = (), results: Sequence[EvaluationResult] = (),
        problems: Mapping[TableId, str] | None = None, inspected: Mapping[TableId, str] | None = None,
        health: Mapping[TableId, HealthPoint] | None = None,
    ) -> None:  # fmt: skip
        at, problems, inspected, health = to_millis(now), problems or {}, inspected or {}, health or {}
        changed = [{"table": table, "seen": tokens[table], "now": at} for table in sorted(tokens)]
        unreadable = [problem_row(t, problems[t], next_due[t], at) for t in sorted(problems)]
        odd = [
            {"table": table, "why": stored_problem(why), "now": at} for table, why in sorted(inspected.items()) if why
        ]
        good = sorted(table for table, why in inspected.items() if not why)
        together: dict[datetime, list[TableId]] = {}
        for table in next_due.keys() - problems.keys():
            together.setdefault(next_due[table], []).append(table)

        def write(tx: Connection) -> None:
            for due, tables in together.items():
                PROBED.run(tx, sorted(tables), now=at, next=to_millis(due))
            if unreadable:
                tx.execute(UNREADABLE, unreadable)
            if odd:
                tx.execute(NOT_UNDERSTOOD, odd)
            UNDERSTOOD.run(tx, good)
            if changed:
                tx.execute(CHANGED, changed)
            self.health.write(tx, health)
            wake_actions(tx, woken, at)
            finish_schedules(tx, results, at)

        if next_due or changed or woken or results or inspected or health:
            self.database.write(write)

    def defer(self, tables: Collection[TableId], *, until: datetime) -> None:
        if tables:
            self.database.write(lambda tx: DEFER.run(tx, sorted(tables), next=to_millis(until)))


def problem_row(table: TableId, why: str, next_due: datetime, now: int) -> dict[str, Any]:
    return {"table": table, "why": stored_problem(why), "next": to_millis(next_due), "now": now}


def stored_problem(why: str) -> str:
    return storable_text(why)[:LONGEST_PROBLEM]
