# SPDX-License-Identifier: Apache-2.0
"""State that factories keep per table, written by compare-and-set."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from lakehand.domain.tables import TableId
from lakehand.store.database import Database
from lakehand.store.schema import table_state as state


@dataclass(frozen=True, slots=True)
class SqlStates:
    database: Database

    def get(self, table: TableId, factory: str, key: str) -> str | None:
        query = select(state.c.value).where(is_named(table, factory, key))
        return self.database.read(lambda tx: tx.execute(query).scalar_one_or_none())

    def put(self, table: TableId, factory: str, key: str, value: str, *, seen: str | None) -> bool:
        first = insert(state).values(tbl_id=table, factory=factory, state_key=key, value=value)
        change = update(state).where(is_named(table, factory, key), state.c.value == seen).values(value=value)
        try:
            return self.database.write(lambda tx: tx.execute(first if seen is None else change).rowcount != 0)
        except IntegrityError:
            return False


def is_named(table: TableId, factory: str, key: str) -> ColumnElement[bool]:
    return and_(state.c.tbl_id == table, state.c.factory == factory, state.c.state_key == key)
