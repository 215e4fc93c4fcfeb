# SPDX-License-Identifier: Apache-2.0
"""The fleet over time: totals recorded every few minutes, and what operations did in each hour."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, or_, select

from lakehand.domain.fleet import FleetPoint, FleetTrend, OperationCounts
from lakehand.store.clock import span_to_millis, to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.dialects import insert_missing
from lakehand.store.fleet_rows import NUMBERS, to_totals
from lakehand.store.schema import Millis, fleet_point, operation_hour, tbl
from lakehand.store.tables import REGISTERED, chunks

ALL = ""  # the owner of the whole fleet's points; no point is stored for an owner without a name
p, h = fleet_point.c, operation_hour.c
BY_OWNER = (
    select(tbl.c.owner, func.count(), *(func.coalesce(func.sum(tbl.c[name]), 0).label(name) for name in NUMBERS))
    .where(REGISTERED)
    .group_by(tbl.c.owner)
)
SINCE, STEP = bindparam("since", type_=Millis), bindparam("step", type_=Millis)
NEWEST = select(func.max(p.point_time)).scalar_subquery()
LARGEST = (
    select(p.owner)
    .where(p.point_time == NEWEST, p.owner != ALL)
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
    .where(or_(p.point_time.in_(FIRST), p.point_time == NEWEST))
    .order_by(p.point_time)
)
COUNTED = ("operations", "attempts", "files_removed", "bytes_rewritten", "wait_millis", "run_millis")
BY_HOUR = select(h.hour, h.status, *(func.sum(h[name]).label(name) for name in COUNTED)).group_by(h.hour, h.status)


@dataclass(frozen=True, slots=True)
class FleetHistory:
    database: Database

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
