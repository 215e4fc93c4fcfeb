# SPDX-License-Identifier: Apache-2.0
"""State that factories keep per table, written by compare-and-set."""

from dataclasses import dataclass

from sqlalchemy import Connection, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from lakehand.domain.tables import TableId
from lakehand.store.database import Database
from lakehand.store.schema import table_state as state


@dataclass(frozen=True, slots=True)
class SqlStates:
    database: Database

    def get(self, table: TableId, factory: str, key: str) -> str | None:
        query = select(state.c.value).where(
            state.c.tbl_id == table, state.c.factory == factory, state.c.state_key == key
        )
        return self.database.read(lambda tx: tx.execute(query).scalar_one_or_none())

    def put(self, table: TableId, factory: str, key: str, value: str, *, seen: str | None) -> bool:
        if seen is None:
            return self.put_first(table, factory, key, value)
        is_same = and_(
            state.c.tbl_id == table, state.c.factory == factory, state.c.state_key == key, state.c.value == seen
        )
        change = update(state).where(is_same).values(value=value)
        return self.database.write(lambda tx: tx.execute(change).rowcount == 1)

    def put_first(self, table: TableId, factory: str, key: str, value: str) -> bool:
        first = insert(state).values(tbl_id=table, factory=factory, state_key=key, value=value)

        def put(tx: Connection) -> bool:
            tx.execute(first)
            return True

        try:
            return self.database.write(put)
        except IntegrityError:
            return False
