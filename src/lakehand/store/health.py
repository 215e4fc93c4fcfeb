# SPDX-License-Identifier: Apache-2.0
"""Health points in SQL: a round-robin archive whose slots are overwritten, so that it never grows beyond its bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, or_, select, tuple_, update

from lakehand.domain.health import HealthPoint, merge, slots_of
from lakehand.domain.tables import TableId
from lakehand.store.clock import to_millis, to_time
from lakehand.store.compiled_statements import BatchInsert
from lakehand.store.database import Database
from lakehand.store.dialects import upsert
from lakehand.store.documents import from_document, to_document
from lakehand.store.schema import Id, Millis, health_point, tbl
from lakehand.store.table_rows import HEALTH

c = health_point.c
KEY = ("tbl_id", "tier", "slot")
AT = bindparam("at", type_=Millis)
OF_TABLE = select(c.point_time, c.numbers).where(c.tbl_id == bindparam("table", type_=Id))
SINCE = OF_TABLE.where(c.point_time >= bindparam("since", type_=Millis))
# A point that was counted slowly may come after a newer one.
NEWEST = (
    update(tbl)
    .where(tbl.c.id == bindparam("table", type_=Id), or_(tbl.c.health_time.is_(None), tbl.c.health_time <= AT))
    .values({"health_time": AT} | {name: bindparam(f"new_{name}", type_=Millis) for name in HEALTH})
)


@dataclass(slots=True)
class HealthWriter:
    """Writes points within someone's transaction: into one slot of each tier, and into the row of the table."""

    dialect: str
    put: BatchInsert = field(init=False)

    def __post_init__(self) -> None:
        self.put = BatchInsert(upsert(self.dialect, health_point, KEY, set_=("point_time", "numbers")))

    def write(self, tx: Connection, points: Mapping[TableId, HealthPoint]) -> None:
        if points:
            ordered = sorted(points.items())  # so that two writers do not deadlock
            tx.execute(NEWEST, [newest_row(table, point) for table, point in ordered])
            self.put.run(tx, [row for table, point in ordered for row in slot_rows(table, point)])


@dataclass(frozen=True, slots=True)
class SqlHealthHistory:
    database: Database

    def of_table(self, table: TableId, since: datetime | None = None) -> Sequence[HealthPoint]:
        given = {"table": table} if since is None else {"table": table, "since": to_millis(since)}
        query = OF_TABLE if since is None else SINCE
        rows = self.database.read(lambda tx: tx.execute(query, given).all())
        return merge(HealthPoint(at=to_time(at), numbers=from_document(numbers)) for at, numbers in rows)

    def remove_before(self, before: datetime, *, limit: int) -> int:
        is_old = c.point_time < to_millis(before)
        oldest = select(c.tbl_id, c.tier, c.slot).where(is_old).order_by(c.point_time).limit(limit)

        def remove(tx: Connection) -> int:
            seen = [tuple(row) for row in tx.execute(oldest)]
            these = tuple_(c.tbl_id, c.tier, c.slot).in_(seen)
            return tx.execute(delete(health_point).where(and_(these, is_old))).rowcount if seen else 0

        return self.database.write(remove)


def slot_rows(table: TableId, point: HealthPoint) -> Sequence[dict[str, Any]]:
    numbers, at = to_document(point.numbers), to_millis(point.at)
    return [
        {"tbl_id": table, "tier": tier, "slot": slot, "point_time": at, "numbers": numbers}
        for tier, slot in slots_of(point.at)
    ]


def newest_row(table: TableId, point: HealthPoint) -> dict[str, Any]:
    return {"table": table, "at": to_millis(point.at)} | {f"new_{name}": point.count(name) for name in HEALTH}
