# SPDX-License-Identifier: Apache-2.0
"""Probes in SQL: one row for each table, taken on by compare-and-set, given back with what was seen."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Connection, and_, bindparam, select, update

from lakehand.core.ports import DueProbe
from lakehand.domain.tables import TableId
from lakehand.store.clock import span_to_millis, to_millis
from lakehand.store.compiled_statements import ListStatement
from lakehand.store.database import Database
from lakehand.store.schema import Id, Millis, tbl

c = tbl.c
NOW = bindparam("now", type_=Millis())
NEXT = bindparam("next", type_=Millis())
IS_DUE = and_(c.probe_due <= NOW, c.paused.is_(False), c.removed.is_(False))
DUE = select(c.id).where(IS_DUE).order_by(c.probe_due).limit(bindparam("limit"))
# Rivals saw the same rows: we win those still due, and only those. Whoever dies leaves them due again a little later.
CLAIM = ListStatement(
    lambda tables: update(tbl).where(c.id.in_(tables), IS_DUE).values(probe_due=NEXT, probe_token=bindparam("token")),
    [Id],
)
WHAT = (c.id, c.format, c.base_path, c.catalog, c.db_name, c.table_name, c.heartbeat_timeout, c.change_token)
CLAIMED = ListStatement(lambda tables: select(*WHAT).where(c.id.in_(tables), c.probe_token == bindparam("token")), [Id])
PROBED = ListStatement(lambda tables: update(tbl).where(c.id.in_(tables)).values(look_time=NOW, probe_due=NEXT), [Id])
PUT_OFF = ListStatement(lambda tables: update(tbl).where(c.id.in_(tables)).values(probe_due=NEXT), [Id])
CHANGED = update(tbl).where(c.id == bindparam("table")).values(change_token=bindparam("seen"), change_time=NOW)


@dataclass(frozen=True, slots=True)
class SqlProbes:
    database: Database

    def claim_due(self, *, now: datetime, time_to_live: timedelta, limit: int) -> Sequence[DueProbe]:
        """The most overdue tables that are neither paused nor removed. Nobody else has them for so long."""
        at = to_millis(now)
        tables = sorted(self.database.read(lambda tx: tx.scalars(DUE, {"now": at, "limit": limit}).all()))
        taken = {"now": at, "next": at + span_to_millis(time_to_live), "token": str(uuid4())}

        def claim(tx: Connection) -> Sequence[DueProbe]:
            CLAIM.run(tx, tables, **taken)
            return [DueProbe(*row) for row in CLAIMED.rows(tx, tables, token=taken["token"])]

        return self.database.write(claim) if tables else []

    def finish(self, next_due: Mapping[TableId, datetime], tokens: Mapping[TableId, str], *, now: datetime) -> None:
        """These tables were probed, and are due again then; those in ``tokens`` have changed.

        Not fenced: of two who probed a table, each has told of the change that it saw before it says so here.
        """
        at = to_millis(now)
        changed = [{"table": table, "seen": tokens[table], "now": at} for table in sorted(tokens)]
        together: dict[datetime, list[TableId]] = {}
        for table, due in next_due.items():
            together.setdefault(due, []).append(table)

        def write(tx: Connection) -> None:
            for due, tables in together.items():
                PROBED.run(tx, sorted(tables), now=at, next=to_millis(due))
            if changed:
                tx.execute(CHANGED, changed)

        if next_due or changed:
            self.database.write(write)

    def put_off(self, tables: Collection[TableId], *, until: datetime) -> None:
        """There was no time for them."""
        if tables:
            self.database.write(lambda tx: PUT_OFF.run(tx, sorted(tables), next=to_millis(until)))
