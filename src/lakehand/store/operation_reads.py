# SPDX-License-Identifier: Apache-2.0
"""Reads operations: single ones, lists, and the queue for dispatch."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, case, func, or_, select

from lakehand.core.pages import Page
from lakehand.core.ports import OperationEnd, OperationFilter
from lakehand.domain.actions import Action
from lakehand.domain.errors import NotFound
from lakehand.domain.operations import LIVE, UNFINISHED, Attempt, Operation, OperationId, Status
from lakehand.domain.processes import Instant
from lakehand.domain.rules import Busy, Candidate, DispatchQueue
from lakehand.domain.tables import Format, TableId
from lakehand.store.clock import to_millis, to_time
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.documents import from_document
from lakehand.store.events import EventWriter
from lakehand.store.health import HealthWriter
from lakehand.store.operation_rows import to_attempt, to_operation
from lakehand.store.paging import read_page
from lakehand.store.schema import Id, Millis, attempt, operation, tbl
from lakehand.store.table_rows import key_of

FEW = 3  # candidates of one table and conflict class
MOST_WAITING = 1000  # pending operations of one table that are read at once
LIVE_WORDS = sorted(status.value for status in LIVE)
UNFINISHED_WORDS = sorted(status.value for status in UNFINISHED)

c = operation.c
NOW = bindparam("now", type_=Millis)
IS_SERVED = and_(tbl.c.paused.is_(False), tbl.c.removed.is_(False))
IS_WANTED = and_(c.status == Status.PENDING.value, c.cancel_requested.is_(False), c.is_deleted.is_(False))
IS_READY = and_(IS_WANTED, c.not_before <= NOW, or_(c.lease_until.is_(None), c.lease_until <= NOW))


def candidate_query() -> Any:
    """The first few of each table, alternating the highest priority and the oldest: neither hides the other."""
    order = [c.urgent.desc(), c.priority.desc(), c.schedule_time, c.operation_id]
    rank = func.row_number().over(partition_by=[c.tbl_id, c.conflict_class], order_by=order).label("row_rank")
    ready = select(c.operation_id, c.priority, c.schedule_time, tbl.c.format.label("table_format"), rank)
    ready_q = ready.join(tbl, tbl.c.id == c.tbl_id).where(IS_READY, IS_SERVED).subquery()
    r = ready_q.c
    by_priority = func.row_number().over(order_by=[r.priority.desc(), r.schedule_time, r.operation_id])
    by_age = func.row_number().over(order_by=[r.schedule_time, r.operation_id])
    ranks = select(r.operation_id, r.table_format, by_priority.label("by_priority"), by_age.label("by_age"))
    ranked = ranks.where(r.row_rank <= FEW).subquery()
    best = case((ranked.c.by_priority < ranked.c.by_age, ranked.c.by_priority), else_=ranked.c.by_age)
    joined = select(operation, ranked.c.table_format).join(ranked, ranked.c.operation_id == c.operation_id)
    return joined.order_by(best, ranked.c.by_priority).limit(bindparam("limit"))


CANDIDATES = candidate_query()
BUSY = (
    select(c.tbl_id, c.conflict_class, c.queue, c.owner, c.action, c.lease_holder, tbl.c.format)
    .join(tbl, tbl.c.id == c.tbl_id)
    .where(c.status.in_(LIVE_WORDS))
)
DUE_SINCE = case((c.not_before > c.schedule_time, c.not_before), else_=c.schedule_time)
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

    def dispatch_queue(self, *, now: datetime, limit: int) -> DispatchQueue:
        def read(tx: Connection) -> tuple[Sequence[Row[Any]], Sequence[Row[Any]]]:
            return tx.execute(CANDIDATES, {"now": to_millis(now), "limit": limit}).all(), tx.execute(BUSY).all()

        candidates, busy = self.database.read(read)
        return DispatchQueue(
            candidates=[Candidate(operation=to_operation(row), format=Format(row.table_format)) for row in candidates],
            busy=[to_busy(row) for row in busy],
        )

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


def to_busy(row: Row[Any]) -> Busy:
    return Busy(
        table=row.tbl_id,
        slot=f"{row.tbl_id}:{row.conflict_class}",
        queue=row.queue,
        owner=row.owner,
        format=row.format,
        action=Action(row.action),
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
