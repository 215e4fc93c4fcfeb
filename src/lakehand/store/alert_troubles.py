# SPDX-License-Identifier: Apache-2.0
"""Reads what may be worth an alert: few columns, and only of tables and operations in trouble."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from lakehand.core.ports import LostLease, TableTrouble, Troubles
from lakehand.domain.operations import OperationId, Status
from lakehand.domain.tables import TableId
from lakehand.store.clock import to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.documents import to_failure
from lakehand.store.operation_queries import IS_SERVED
from lakehand.store.schema import Millis, Number, event, operation, schedule, tbl

c, o = tbl.c, operation.c
TABLE = (c.id, c.db_name, c.table_name, c.owner, c.queue, c.format)
LIMIT, SINCE = bindparam("limit", type_=Number), bindparam("since", type_=Millis)
FAILED = (
    select(
        *TABLE, schedule.c.action, schedule.c.failed_operation.label("operation"), o.reason, o.failure,
        o.finish_time.label("since"),
    )
    .join(schedule, schedule.c.tbl_id == c.id)
    .join(operation, o.operation_id == schedule.c.failed_operation, isouter=True)
    .where(IS_SERVED, schedule.c.failed_operation > 0)
    .order_by(c.id, schedule.c.action)
    .limit(LIMIT)
)  # fmt: skip
UNREADABLE = (
    select(*TABLE, c.problem.label("reason"), c.problem_time.label("since"))
    .where(IS_SERVED, c.problem.is_not(None), c.problem_time <= SINCE)
    .order_by(c.id)
    .limit(LIMIT)
)
PAUSED = (
    select(*TABLE, c.pause_reason.label("reason"), c.update_time.label("since"))
    .where(c.paused.is_(True), c.removed.is_(False), c.pause_reason.is_not(None))
    .order_by(c.id)
    .limit(LIMIT)
)
BECAME_UNKNOWN = (
    select(func.max(event.c.event_time))
    .where(event.c.operation_id == o.operation_id, event.c.kind == "operation.unknown")
    .scalar_subquery()
)
UNKNOWN_SINCE = func.coalesce(BECAME_UNKNOWN, o.update_time)
UNKNOWN = (
    select(*TABLE, o.action, o.operation_id.label("operation"), o.reason, UNKNOWN_SINCE.label("since"))
    .join(tbl, c.id == o.tbl_id)
    .where(o.status == Status.UNKNOWN.value, UNKNOWN_SINCE <= SINCE)
    .order_by(o.operation_id)
    .limit(LIMIT)
)
LOST = (
    select(event.c.message, event.c.event_id)
    .where(event.c.event_time >= SINCE, event.c.kind == "operation.rescued", event.c.message.startswith("taken over"))
    .order_by(event.c.event_id)
    .limit(LIMIT)
)


@dataclass(frozen=True, slots=True)
class AlertTroubles:
    database: Database

    def troubles(
        self, *, unreadable_since: datetime, unknown_since: datetime, lost_since: datetime, limit: int
    ) -> Troubles:
        def read(tx: Connection) -> Troubles:
            def rows(query: Any, since: datetime | None = None) -> Sequence[Row[Any]]:
                bounds = {"limit": limit} if since is None else {"limit": limit, "since": to_millis(since)}
                return tx.execute(query, bounds).all()

            return Troubles(
                failed=[to_trouble(row, failure_text(row)) for row in rows(FAILED)],
                unreadable=[to_trouble(row, row.reason) for row in rows(UNREADABLE, unreadable_since)],
                unknown=[to_trouble(row, row.reason) for row in rows(UNKNOWN, unknown_since)],
                paused=[to_trouble(row, row.reason) for row in rows(PAUSED)],
                lost_leases=[LostLease(message=text, event=number) for text, number in rows(LOST, lost_since)],
            )

        return self.database.read(read)


def failure_text(row: Row[Any]) -> str:
    failure = to_failure(row.failure)
    return failure.message if failure else row.reason or "its operation is no longer stored"


def to_trouble(row: Row[Any], reason: str) -> TableTrouble:
    operation = getattr(row, "operation", None)
    return TableTrouble(
        table=TableId(row.id), name=f"{row.db_name}.{row.table_name}" if row.db_name else row.table_name,
        owner=row.owner, queue=row.queue, format=row.format, reason=reason, since=to_time(row.since),
        action=getattr(row, "action", ""), operation=None if operation is None else OperationId(operation),
    )  # fmt: skip
