# SPDX-License-Identifier: Apache-2.0
"""The fleet in SQL: states and totals of all tables, lists of them, what needs a person, and all that over time.

What operations did is counted in the hour in which they ended, within the transaction that ends them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, func, or_, select

from lakehand.core.ports import TableFilter
from lakehand.domain.actions import Action
from lakehand.domain.fleet import (
    ATTENTION,
    RETRIED,
    FleetChoices,
    FleetPoint,
    FleetProblem,
    FleetProblems,
    FleetSummary,
    FleetTable,
    FleetTables,
    FleetTotals,
    FleetTrend,
    OperationCounts,
    TableSort,
    TableState,
)
from lakehand.domain.operations import Operation, OperationId, Status
from lakehand.domain.processes import reported_number
from lakehand.domain.texts import first_sentence
from lakehand.spi.health import BYTES_REWRITTEN, FILES_REMOVED
from lakehand.store.clock import span_to_millis, to_millis, to_time
from lakehand.store.compiled_statements import BatchInsert
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing, upsert
from lakehand.store.documents import to_failure
from lakehand.store.operation_queries import LIVE_WORDS
from lakehand.store.schema import Millis, fleet_point, operation, operation_hour, schedule, tbl
from lakehand.store.table_rows import to_table
from lakehand.store.tables import REGISTERED, STATE, chunks, conditions

NUMBERS = ("files", "small_files", "bytes", "small_bytes")
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
HOUR = 3_600_000  # milliseconds
KEYS = ("hour", "action", "status")
COUNTED = ("operations", "attempts", "files_removed", "bytes_rewritten", "wait_millis", "run_millis")


def to_totals(row: Sequence[Any]) -> FleetTotals:
    """From the number of tables and the sums of NUMBERS."""
    tables, files, small_files, size, small_size = (int(value) for value in row)
    return FleetTotals(tables=tables, files=files, small_files=small_files, bytes=size, small_bytes=small_size)


def to_fleet_table(row: Row[Any], reason: tuple[str, int | None]) -> FleetTable:
    """From a row of ``tbl`` with its state, and its last reason with the time of that decision."""
    why, decided = (row.problem, row.problem_time) if row.problem else reason
    return FleetTable(
        table=to_table(row),
        state=ATTENTION[row.state],
        reason=why,
        decided_at=to_time(decided),
        problem=row.problem or "",
        problem_since=to_time(row.problem_time),
        health_at=to_time(row.health_time),
        **{name: getattr(row, name) for name in NUMBERS},
    )


def last_reasons(schedules: Iterable[Row[Any]]) -> Mapping[int, tuple[str, int | None]]:
    """Per table, the reason of an action that failed for good, else of the last evaluated, and when it was decided."""
    ranked = sorted(schedules, key=lambda row: (row.failed_operation is not None, row.last_look or 0))
    return {row.tbl_id: (row.last_reason, row.last_decision) for row in ranked}


def to_failed(row: Row[Any]) -> FleetProblem:
    """The operation itself may be gone with the history."""
    failure = to_failure(row.failure)
    why = failure.message if failure else row.failed_reason or row.last_reason
    return FleetProblem(
        table=to_table(row),
        state=TableState.FAILED,
        reason=first_sentence(why),
        since=to_time(row.finish_time),
        action=Action(row.failed_action),
        operation=OperationId(row.failed_operation),
    )


def to_unreadable(row: Row[Any]) -> FleetProblem:
    return FleetProblem(
        table=to_table(row),
        state=TableState.UNREADABLE,
        reason=first_sentence(row.problem),
        since=to_time(row.problem_time),
    )


NEWEST = {
    to_failed: FAILED.order_by(func.coalesce(operation.c.finish_time, 0).desc(), c.id),
    to_unreadable: UNREADABLE.order_by(func.coalesce(c.problem_time, 0).desc(), c.id),
}
PROBLEM_COUNTS = [query.with_only_columns(func.count(), maintain_column_froms=True) for query in (FAILED, UNREADABLE)]
ALL = ""  # the owner of the whole fleet's points; no point is stored for an owner without a name
p, h = fleet_point.c, operation_hour.c
BY_OWNER = (
    select(tbl.c.owner, func.count(), *(func.coalesce(func.sum(tbl.c[name]), 0).label(name) for name in NUMBERS))
    .where(REGISTERED)
    .group_by(tbl.c.owner)
)
SINCE, STEP = bindparam("since", type_=Millis), bindparam("step", type_=Millis)
NEWEST_POINT = select(func.max(p.point_time)).scalar_subquery()
LARGEST = (
    select(p.owner)
    .where(p.point_time == NEWEST_POINT, p.owner != ALL)
    .order_by(p.small_files.desc(), p.owner)
    .limit(bindparam("owners"))
)
# The service may not have run when a step began: its first point counts.
FIRST = (
    select(func.min(p.point_time))
    .where(p.owner == ALL, p.point_time >= SINCE)
    .group_by(p.point_time - p.point_time % STEP)
)
STEPS = (
    select(fleet_point)
    .where(p.point_time >= SINCE, p.owner.in_(bindparam("names", expanding=True)))
    .where(or_(p.point_time.in_(FIRST), p.point_time == NEWEST_POINT))
    .order_by(p.point_time)
)
BY_HOUR = select(h.hour, h.status, *(func.sum(h[name]).label(name) for name in COUNTED)).group_by(h.hour, h.status)


@dataclass(frozen=True, slots=True)
class SqlFleet:
    database: Database

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

    def record(self, *, at: datetime, owners: int) -> bool:
        millis = to_millis(at)
        stored = select(p.point_time).where(p.point_time == millis, p.owner == ALL)

        def read(tx: Connection) -> Sequence[Row[Any]] | None:
            return None if tx.execute(stored).first() else tx.execute(BY_OWNER).all()

        sums = self.database.read(read)
        if sums is None:
            return False
        insert = insert_missing(self.database.dialect, fleet_point)
        self.database.write(lambda tx: tx.execute(insert, point_rows(millis, sums, owners)))
        return True

    def trend(self, *, since: datetime, step: timedelta, owners: int) -> FleetTrend:
        def read(tx: Connection) -> dict[str, list[FleetPoint]]:
            points: dict[str, list[FleetPoint]] = {name: [] for name in [ALL, *tx.scalars(LARGEST, {"owners": owners})]}
            wanted = {"since": to_millis(since), "step": span_to_millis(step), "names": list(points)}
            for row in tx.execute(STEPS, wanted):
                points[row.owner].append(FleetPoint(at=to_time(row.point_time), totals=to_totals(row[2:])))
            return points

        points = self.database.read(read)
        return FleetTrend(total=points.pop(ALL), owners=points)

    def counts(self, *, since: datetime) -> Sequence[OperationCounts]:
        query = BY_HOUR.where(h.hour >= to_millis(since)).order_by(h.hour, h.status)
        return [to_counts(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def point_times(self) -> Sequence[datetime]:
        query = select(p.point_time).where(p.owner == ALL).order_by(p.point_time)
        return [to_time(millis) for millis in self.database.read(lambda tx: tx.scalars(query).all())]

    def remove_points(self, times: Sequence[datetime]) -> None:
        def write(tx: Connection) -> None:
            for part in chunks([to_millis(time) for time in times]):
                tx.execute(delete(fleet_point).where(p.point_time.in_(part)))

        if times:
            self.database.write(write)

    def remove_counts(self, *, before: datetime) -> int:
        old = delete(operation_hour).where(h.hour < to_millis(before))
        return self.database.write(lambda tx: tx.execute(old).rowcount)


def read_tables(tx: Connection, ids: Sequence[int]) -> list[FleetTable]:
    """In the order of the ids. The state is worked out again for these few only."""
    s = schedule.c
    columns = (s.tbl_id, s.last_reason, s.last_look, s.last_decision, s.failed_operation)
    tables: dict[int, Row[Any]] = {}
    reasons: dict[int, tuple[str, int | None]] = {}
    for part in chunks(ids):
        rows = tx.execute(select(*tbl.c, STATE.label("state")).where(c.id.in_(part))).all()
        tables.update({row.id: row for row in rows})
        reasons.update(last_reasons(tx.execute(select(*columns).where(schedule.c.tbl_id.in_(part)))))
    return [to_fleet_table(tables[one], reasons.get(one, ("", None))) for one in ids if one in tables]


def point_rows(at: int, sums: Sequence[Row[Any]], owners: int) -> list[dict[str, Any]]:
    """The whole fleet, then the owners with the most small files, in a fixed order."""
    totals = [sum(int(row[column]) for row in sums) for column in range(1, 2 + len(NUMBERS))]
    largest = sorted((row for row in sums if row[0] != ALL), key=lambda row: (-int(row.small_files), row[0]))[:owners]
    rows = [(ALL, *totals), *sorted((row[0], *map(int, row[1:])) for row in largest)]
    return [dict(zip(("point_time", "owner", "tables", *NUMBERS), (at, *row), strict=True)) for row in rows]


def to_counts(row: Row[Any]) -> OperationCounts:
    return OperationCounts(
        hour=to_time(row.hour),
        status=row.status,
        operations=int(row.operations),
        attempts=int(row.attempts),
        files_removed=int(row.files_removed),
        bytes_rewritten=int(row.bytes_rewritten),
        wait=timedelta(milliseconds=int(row.wait_millis)),
        run=timedelta(milliseconds=int(row.run_millis)),
    )


@dataclass(slots=True)
class OperationHours:
    """Must be the last write of its transaction: whoever locks a row here waits for nothing more, so none deadlock."""

    dialect: str
    insert: BatchInsert = field(init=False)

    def __post_init__(self) -> None:
        self.insert = BatchInsert(upsert(self.dialect, operation_hour, KEYS, set_=(), add=COUNTED))

    def count_waited(self, tx: Connection, rows: Iterable[Row[Any]], at: int, status: Status) -> None:
        """Of operations that ended while they waited."""
        self.count(tx, [waited_row(row, at, status) for row in rows])

    def count(self, tx: Connection, rows: Iterable[dict[str, Any]]) -> None:
        if merged := merge_equal(rows):
            self.insert.run(tx, merged)


def merge_equal(rows: Iterable[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """One row per key, in a fixed order."""
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        known = by_key.get(key)
        by_key[key] = {**row, **{name: known[name] + row[name] for name in COUNTED}} if known else row
    return [by_key[key] for key in sorted(by_key)]


def ended_row(operation: Operation, *, at: int, has_run: bool) -> dict[str, Any]:
    """Of an operation that ended; ``has_run``: with an attempt, which ended now, too."""
    started = operation.submitted_at if has_run else None
    return hour_row(operation.process.action, operation.status.value, at) | {
        "attempts": operation.run_times,
        "files_removed": reported_number(operation.result.get(FILES_REMOVED)),
        "bytes_rewritten": reported_number(operation.result.get(BYTES_REWRITTEN)),
        "wait_millis": between(operation.due_at, to_millis(started) if started else at),
        "run_millis": between(operation.started_at or started, at) if has_run else 0,
    }


def retried_row(operation: Operation, *, at: int) -> dict[str, Any]:
    """Of one attempt that failed and is followed by another one."""
    run = between(operation.started_at or operation.submitted_at, at)
    return hour_row(operation.process.action, RETRIED, at) | {"attempts": 1, "run_millis": run}


def waited_row(row: Row[Any], at: int, status: Status = Status.CANCELED) -> dict[str, Any]:
    """Of an operation that ended while it waited; its row as it was, or is now."""
    waited = {"attempts": row.run_times, "wait_millis": max(at - row.schedule_time, 0)}
    return hour_row(row.action, status.value, at) | waited


def hour_row(action: str, status: str, at: int) -> dict[str, Any]:
    key = {"hour": at - at % HOUR, "action": str(action), "status": status}
    return dict.fromkeys(COUNTED, 0) | key | {"operations": 1}


def between(start: datetime | None, end: int) -> int:
    return max(end - to_millis(start), 0) if start else 0
