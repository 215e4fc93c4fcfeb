# SPDX-License-Identifier: Apache-2.0
"""The fleet in SQL: states and totals of all tables, lists of them, and what needs a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, select

from lakehand.core.ports import TableFilter
from lakehand.domain.fleet import (
    ATTENTION,
    FleetChoices,
    FleetProblem,
    FleetProblems,
    FleetSummary,
    FleetTable,
    FleetTables,
    TableSort,
    TableState,
)
from lakehand.store.fleet_history import FleetHistory
from lakehand.store.fleet_rows import NUMBERS, last_reasons, to_failed, to_fleet_table, to_totals, to_unreadable
from lakehand.store.operation_queries import LIVE_WORDS
from lakehand.store.schema import operation, schedule, tbl
from lakehand.store.table_states import STATE
from lakehand.store.tables import REGISTERED, chunks, conditions

c = tbl.c
SUMS = [func.count(), *(func.coalesce(func.sum(c[name]), 0) for name in NUMBERS)]
SORTS: Mapping[TableSort, Sequence[ColumnElement[Any]]] = {
    TableSort.NAME: (c.db_name, c.table_name),
    TableSort.STATE: (STATE,),
    TableSort.FILES: (func.coalesce(c.files, -1),),
    TableSort.SMALL_FILES: (func.coalesce(c.small_files, -1),),
    TableSort.BYTES: (func.coalesce(c.bytes, -1),),
    TableSort.UPDATED: (c.update_time,),
}
CHOICES = select(c.format, c.catalog, c.owner, c.queue).where(REGISTERED).distinct()
RUNNING = select(operation.c.queue, func.count()).where(operation.c.status.in_(LIVE_WORDS)).group_by(operation.c.queue)
IS_SERVED = and_(REGISTERED, c.paused.is_(False))
UNREADABLE = select(tbl).where(IS_SERVED, c.problem.is_not(None))
FAILED = (
    select(
        *tbl.c, schedule.c.action.label("failed_action"), schedule.c.failed_operation, schedule.c.last_reason,
        operation.c.finish_time, operation.c.failure, operation.c.reason.label("failed_reason"),
    )
    .join(schedule, schedule.c.tbl_id == c.id)
    .join(operation, operation.c.operation_id == schedule.c.failed_operation, isouter=True)
    .where(IS_SERVED, c.problem.is_(None), schedule.c.failed_operation > 0)
)  # fmt: skip
NEWEST = {
    to_failed: FAILED.order_by(func.coalesce(operation.c.finish_time, 0).desc(), c.id),
    to_unreadable: UNREADABLE.order_by(func.coalesce(c.problem_time, 0).desc(), c.id),
}
PROBLEM_COUNTS = [query.with_only_columns(func.count(), maintain_column_froms=True) for query in (FAILED, UNREADABLE)]


class SqlFleet(FleetHistory):
    def summary(self, filter: TableFilter) -> FleetSummary:
        query = select(STATE.label("state"), *SUMS).where(*conditions(filter)).group_by("state")
        rows = self.database.read(lambda tx: tx.execute(query).all())
        states = dict.fromkeys(TableState, 0) | {ATTENTION[row[0]]: int(row[1]) for row in rows}
        sums = [sum(int(row[column]) for row in rows) for column in range(1, 2 + len(NUMBERS))]
        return FleetSummary(states=states, totals=to_totals(sums))

    def choices(self, *, limit: int) -> FleetChoices:
        rows = self.database.read(lambda tx: tx.execute(CHOICES).all())
        formats, catalogs, owners, queues = (sorted({row[column] for row in rows})[:limit] for column in range(4))
        return FleetChoices(formats=formats, catalogs=catalogs, owners=owners, queues=queues)

    def tables(self, filter: TableFilter, *, sort: TableSort, descending: bool, limit: int, offset: int) -> FleetTables:
        matching, keys = conditions(filter), [*SORTS[sort], c.id]
        order = [key.desc() if descending else key for key in keys]
        page = select(c.id).where(*matching).order_by(*order).limit(limit).offset(offset)
        count = select(func.count()).select_from(tbl).where(*matching)

        def read(tx: Connection) -> FleetTables:
            ids = tx.scalars(page).all()
            return FleetTables(items=read_tables(tx, ids), total=tx.execute(count).scalar_one())

        return self.database.read(read)

    def problems(self, *, limit: int) -> FleetProblems:
        def read(tx: Connection) -> tuple[list[FleetProblem], int]:
            shown = [convert(row) for convert, query in NEWEST.items() for row in tx.execute(query.limit(limit))]
            return shown, sum(tx.execute(count).scalar_one() for count in PROBLEM_COUNTS)

        problems, total = self.database.read(read)
        newest = sorted(problems, key=lambda one: one.since.timestamp() if one.since else 0, reverse=True)
        return FleetProblems(items=newest[:limit], total=total)

    def running(self) -> Mapping[str, int]:
        rows = self.database.read(lambda tx: tx.execute(RUNNING).all())
        return {str(row[0]): int(row[1]) for row in rows}


def read_tables(tx: Connection, ids: Sequence[int]) -> list[FleetTable]:
    """In the order of the ids. The state is worked out again for these few only."""
    columns = (schedule.c.tbl_id, schedule.c.last_reason, schedule.c.last_look, schedule.c.failed_operation)
    tables: dict[int, Row[Any]] = {}
    reasons: dict[int, str] = {}
    for part in chunks(ids):
        rows = tx.execute(select(*tbl.c, STATE.label("state")).where(c.id.in_(part))).all()
        tables.update({row.id: row for row in rows})
        reasons.update(last_reasons(tx.execute(select(*columns).where(schedule.c.tbl_id.in_(part)))))
    return [to_fleet_table(tables[one], reasons.get(one, "")) for one in ids if one in tables]
