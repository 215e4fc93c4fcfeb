# SPDX-License-Identifier: Apache-2.0
"""Tables at rest in SQL: one row for each of them, however many actions it has."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Connection, and_, bindparam, case, func, or_, select, update

from lakehand.domain.operations import LeaseToken
from lakehand.domain.schedules import Resting
from lakehand.domain.tables import Format, TableId
from lakehand.store.clock import millis_or_none, to_millis
from lakehand.store.database import Database
from lakehand.store.prepared import Listed
from lakehand.store.schema import Id, Millis, schedule, tbl

c, t = schedule.c, tbl.c
NOW = bindparam("now", type_=Millis())
TOKEN: BindParameter[Any] = bindparam("token")
IS_AT_REST = and_(
    func.sum(c.wakes) == 0,
    func.count(c.last_decision) == func.count(),
    func.count(c.seen_token) == func.count(),
    func.min(c.seen_token) == func.max(c.seen_token),
    or_(func.count(c.decide_at) == 0, func.min(c.decide_at) > NOW),
)
OF_TABLE = [t.id, t.format, t.base_path, t.catalog, t.db_name, t.table_name, t.heartbeat_timeout, t.change_token]
AT_REST = Listed(
    lambda tables: (
        select(*OF_TABLE, t.action_types, func.min(c.seen_token))
        .join(schedule, c.tbl_id == t.id)
        .where(c.tbl_id.in_(tables), c.lease_token == TOKEN)
        .group_by(t.id)
        .having(IS_AT_REST)
    ),
    [Id],
)
REST = Listed(
    lambda tables: (
        update(schedule)
        .where(c.tbl_id.in_(tables), c.lease_token == TOKEN)
        .values(
            due=case(
                (c.wakes > 0, c.due),
                (c.decide_at < bindparam("next_due", type_=Millis()), c.decide_at),
                else_=bindparam("next_due", type_=Millis()),
            ),
            last_look=func.coalesce(bindparam("look", type_=Millis()), c.last_look),
            lease_holder=None,
            lease_token=None,
            lease_until=None,
        )
    ),
    [Id],
)
MayRest = Callable[[TableId, str, str], bool]


def read_resting(
    tx: Connection, tables: Sequence[TableId], token: LeaseToken, now: int, may_rest: MayRest
) -> list[Resting]:
    rows = AT_REST.rows(tx, tables, token=token, now=now)
    return [
        Resting(
            TableId(table), Format(on), location, catalog, db_name, table_name, heartbeat, seen, change_token, token
        )
        for table, on, location, catalog, db_name, table_name, heartbeat, change_token, actions, seen in rows
        if may_rest(table, on, actions)
    ]


def write_rest(database: Database, resting: Collection[Resting], *, next_due: datetime, now: datetime | None) -> None:
    due, look = to_millis(next_due), millis_or_none(now)
    groups = by_lease(resting)

    def write(tx: Connection) -> None:
        for token, tables in groups.items():
            REST.run(tx, tables, token=token, next_due=due, look=look)

    if groups:
        database.write(write)


def by_lease(resting: Iterable[Resting]) -> Mapping[LeaseToken, list[TableId]]:
    groups: dict[LeaseToken, list[TableId]] = {}
    for one in resting:
        groups.setdefault(one.lease, []).append(one.table)
    return {token: sorted(tables) for token, tables in groups.items()}
