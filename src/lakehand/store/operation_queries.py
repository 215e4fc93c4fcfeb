# SPDX-License-Identifier: Apache-2.0
"""Reads operations: single ones, lists, and the queue for dispatch."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, case, func, or_, select, tuple_

from lakehand.core.ports import OperationEnd, OperationFilter, Page
from lakehand.domain.actions import Action
from lakehand.domain.errors import NotFound
from lakehand.domain.operations import LIVE, UNFINISHED, Attempt, Operation, OperationId, Status
from lakehand.domain.processes import Instant
from lakehand.domain.rules import Busy, Candidate, Closed, DispatchQueue
from lakehand.domain.tables import Format, TableId
from lakehand.store.clock import span_to_millis, to_millis, to_time
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.documents import from_document
from lakehand.store.events import EventWriter
from lakehand.store.health import HealthWriter
from lakehand.store.operation_rows import to_attempt, to_operation
from lakehand.store.paging import read_page
from lakehand.store.schema import Id, Millis, attempt, operation, tbl
from lakehand.store.table_rows import key_of

MOST_WAITING = 1000  # pending operations of one table that are read at once
LIVE_WORDS = sorted(status.value for status in LIVE)
UNFINISHED_WORDS = sorted(status.value for status in UNFINISHED)

c = operation.c
NOW = bindparam("now", type_=Millis)
IS_SERVED = and_(tbl.c.paused.is_(False), tbl.c.removed.is_(False))
IS_WANTED = and_(c.status == Status.PENDING.value, c.cancel_requested.is_(False), c.is_deleted.is_(False))


# Coalesced, since MariaDB would read by the index on lease_until, of which nearly all that wait are a part.
IS_READY = and_(IS_WANTED, c.not_before <= NOW, func.coalesce(c.lease_until, 0) <= NOW)
NOT_SERVED = select(tbl.c.id).where(or_(tbl.c.paused.is_(True), tbl.c.removed.is_(True)))
DUE_SINCE = case((c.not_before > c.schedule_time, c.not_before), else_=c.schedule_time)
# As the rules rank them (``merit`` in domain/rules.py).
RANK = [
    (c.priority + (NOW - DUE_SINCE) // bindparam("age_step", type_=Millis)).desc(),
    c.urgent.desc(),
    DUE_SINCE,
    c.operation_id,
]


def candidate_query(closed: Closed, *, leave_owners_out: bool) -> Any:
    """The best that nothing closed holds back. It reads each pending row once, and joins only those that it returns."""
    ready = select(c.operation_id).where(IS_READY, c.tbl_id.not_in(NOT_SERVED))
    best_q = ready.where(*open_only(closed, leave_owners_out=leave_owners_out)).order_by(*RANK)
    best = best_q.limit(bindparam("limit")).subquery()
    full = select(operation, tbl.c.format.label("table_format")).join(best, best.c.operation_id == c.operation_id)
    return full.join(tbl, tbl.c.id == c.tbl_id).order_by(*RANK)


def open_only(closed: Closed, *, leave_owners_out: bool) -> Iterator[ColumnElement[bool]]:
    if closed.queues:
        yield c.queue.not_in(sorted(closed.queues))
    if closed.owners and leave_owners_out:
        yield c.owner.not_in(sorted(closed.owners))
    if closed.engines:
        yield or_(c.job == "", c.engine.not_in(sorted(closed.engines)))
    for name, action in sorted(closed.pairs):
        yield or_(c.action != action, c.tbl_id.not_in(select(tbl.c.id).where(tbl.c.format == name)))
    if closed.slots:
        slots = [(int(table), kind) for table, _, kind in (slot.partition(":") for slot in sorted(closed.slots))]
        busy_tables = sorted({table for table, _ in slots})
        yield or_(c.tbl_id.not_in(busy_tables), tuple_(c.tbl_id, c.conflict_class).not_in(slots))


BUSY = (
    select(c.tbl_id, c.conflict_class, c.queue, c.owner, c.action, c.engine, c.lease_holder, tbl.c.format)
    .join(tbl, tbl.c.id == c.tbl_id)
    .where(c.status.in_(LIVE_WORDS))
)
DEPTH = (
    select(c.queue, func.count(), func.min(case((c.not_before <= NOW, DUE_SINCE))))
    .join(tbl, tbl.c.id == c.tbl_id)
    .where(IS_WANTED, IS_SERVED)
    .group_by(c.queue)
)
ONE = select(operation).where(c.operation_id == bindparam("id", type_=Id))
BY_IDS = ListStatement(lambda ids: select(operation).where(c.operation_id.in_(ids)), [Id])
AT = select(operation).where(c.tbl_id == bindparam("table", type_=Id), c.instant == bindparam("instant"))
NEWEST = select(operation).where(c.tbl_id == bindparam("table", type_=Id)).order_by(c.operation_id.desc())
LIVE_OF = NEWEST.where(c.status.in_(LIVE_WORDS))
WAITING_OF = (
    select(operation)
    .where(c.tbl_id == bindparam("table", type_=Id), c.status == Status.PENDING.value)
    .order_by(c.operation_id)
    .limit(bindparam("waiting"))
)
UNFINISHED_COUNTS = (
    select(c.action, func.count())
    .where(c.tbl_id == bindparam("table", type_=Id), c.status.in_(UNFINISHED_WORDS))
    .group_by(c.action)
)
FINISHED_OF = NEWEST.where(c.status.not_in(UNFINISHED_WORDS)).limit(bindparam("recent"))
ENDS_OF = FINISHED_OF.with_only_columns(c.operation_id, c.action, c.status, c.finish_time, c.result)


class OperationReads:
    def __init__(self, database: Database, events: EventWriter, health: HealthWriter) -> None:
        self.database = database
        self.events = events
        self.health = health

    def get(self, id: OperationId) -> Operation:
        return self.database.read(lambda tx: to_operation(row_of(tx, id)))

    def find(self, table: TableId, instant: Instant) -> Operation | None:
        row = self.database.read(lambda tx: tx.execute(AT, {"table": table, "instant": instant}).one_or_none())
        return None if row is None else to_operation(row)

    def by_ids(self, ids: Collection[OperationId]) -> Sequence[Operation]:
        rows = self.database.read(lambda tx: BY_IDS.rows(tx, sorted(ids))) if ids else []
        return list({row.operation_id: to_operation(row) for row in rows}.values())

    def of_table(self, table: TableId, *, recent: int, waiting: int = MOST_WAITING) -> Sequence[Operation]:
        def read(tx: Connection) -> Sequence[Row[Any]]:
            live = tx.execute(LIVE_OF, {"table": table}).all()
            pending = tx.execute(WAITING_OF, {"table": table, "waiting": waiting}).all()
            finished = tx.execute(FINISHED_OF, {"table": table, "recent": recent}).all() if recent else []
            return [*live, *pending, *finished]

        # One may have moved on between two of these reads.
        found = {row.operation_id: to_operation(row) for row in self.database.read(read)}
        return [found[key] for key in sorted(found, reverse=True)]

    def ends(self, table: TableId, *, limit: int) -> Sequence[OperationEnd]:
        rows = self.database.read(lambda tx: tx.execute(ENDS_OF, {"table": table, "recent": limit}).all())
        return [to_end(row) for row in rows if row.finish_time is not None]

    def unfinished(self, table: TableId) -> Mapping[str, int]:
        rows = self.database.read(lambda tx: tx.execute(UNFINISHED_COUNTS, {"table": table}).all())
        return {str(row[0]): int(row[1]) for row in rows}

    def dispatch_queue(
        self, *, now: datetime, limit: int, age_step: timedelta, close: Callable[[Sequence[Busy]], Closed]
    ) -> DispatchQueue:
        values = {"now": to_millis(now), "limit": limit, "age_step": span_to_millis(age_step)}

        def read(tx: Connection) -> DispatchQueue:
            busy = [to_busy(row) for row in tx.execute(BUSY)]
            closed = close(busy)
            if closed.is_full:
                return DispatchQueue(candidates=[], busy=busy)
            found = tx.execute(candidate_query(closed, leave_owners_out=True), values).all()
            has_more_owners = len(found) == limit
            if not found and closed.owners:
                found = tx.execute(candidate_query(closed, leave_owners_out=False), values).all()
            return DispatchQueue(candidates=[*map(to_candidate, found)], busy=busy, has_more_owners=has_more_owners)

        return self.database.read(read)

    def attempts(self, id: OperationId) -> Sequence[Attempt]:
        """In the order of their starts."""
        query = select(attempt).where(attempt.c.operation_id == id).order_by(attempt.c.attempt_id)
        return [to_attempt(row) for row in self.database.read(lambda tx: tx.execute(query).all())]

    def queue_depth(self, *, now: datetime) -> Mapping[str, tuple[int, datetime | None]]:
        rows = self.database.read(lambda tx: tx.execute(DEPTH, {"now": to_millis(now)}).all())
        return {queue: (count, to_time(oldest)) for queue, count, oldest in rows}

    def list(self, filter: OperationFilter, *, limit: int, cursor: str | None) -> Page[Operation]:
        query = select(operation).where(*conditions(filter))
        return read_page(self.database, query, [c.operation_id], to_operation, limit=limit, cursor=cursor)


def row_of(tx: Connection, id: OperationId, *, lock: bool = False) -> Row[Any]:
    row = tx.execute(ONE.with_for_update() if lock else ONE, {"id": id}).one_or_none()
    if row is None:
        raise NotFound(f"there is no operation {id}")
    return row


def to_end(row: Row[Any]) -> OperationEnd:
    return OperationEnd(
        id=OperationId(row.operation_id), action=Action(row.action), status=Status(row.status),
        finished_at=to_time(row.finish_time), result=from_document(row.result),
    )  # fmt: skip


def to_candidate(row: Row[Any]) -> Candidate:
    return Candidate(operation=to_operation(row), format=Format(row.table_format))


def to_busy(row: Row[Any]) -> Busy:
    return Busy(
        table=row.tbl_id,
        slot=f"{row.tbl_id}:{row.conflict_class}",
        queue=row.queue,
        owner=row.owner,
        format=row.format,
        action=Action(row.action),
        engine=row.engine,
        holder=row.lease_holder or "",
    )


def conditions(filter: OperationFilter) -> Sequence[ColumnElement[bool]]:
    wanted = {"tbl_id": filter.table, "queue": filter.queue, "owner": filter.owner}
    same = [c[name] == value for name, value in wanted.items() if value is not None]
    if filter.action is not None:
        same.append(c.action == str(filter.action))
    if filter.statuses:
        same.append(c.status.in_(sorted(status.value for status in filter.statuses)))
    if filter.location is not None:
        there = select(tbl.c.id).where(tbl.c.location_key == key_of(filter.location))
        same.append(c.tbl_id == there.scalar_subquery())
    return same
