# SPDX-License-Identifier: Apache-2.0
"""Where the databases differ: inserts that conflict with an existing row, and temporary errors."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError

_ON_CONFLICT: dict[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_TEMPORARY_STATES = {"40001", "40P01", "55P03"}  # serialisation failure, deadlock, lock not available
_TEMPORARY_NUMBERS = {1020, 1205, 1213}  # record changed, lock wait timeout, deadlock


def insert_missing(dialect: str, table: Table) -> Insert:
    """Insert rows; skip those that conflict with any unique key."""
    statement: Insert
    if dialect == "mysql":
        # INSERT IGNORE would also hide values out of range.
        key = next(iter(table.primary_key))
        statement = mysql.insert(table).on_duplicate_key_update({key.name: key})
    else:
        statement = _ON_CONFLICT[dialect](table).on_conflict_do_nothing()
    return statement


@cache
def upsert(
    dialect: str, table: Table, keys: tuple[str, ...], *, set_: tuple[str, ...], add: tuple[str, ...] = ()
) -> Insert:
    """Insert rows; if one has the same keys, set some of its columns to the new values, and add to others."""
    statement: Insert
    if dialect == "mysql":
        onto = mysql.insert(table)
        fresh = onto.inserted
        statement = onto.on_duplicate_key_update(changes(table, fresh, set_, add))
    else:
        conflicting = _ON_CONFLICT[dialect](table)
        fresh = conflicting.excluded
        statement = conflicting.on_conflict_do_update(index_elements=list(keys), set_=changes(table, fresh, set_, add))
    return statement


def changes(table: Table, fresh: Any, set_: Sequence[str], add: Sequence[str]) -> dict[str, Any]:
    return {name: fresh[name] for name in set_} | {name: table.c[name] + fresh[name] for name in add}


def is_temporary(error: DBAPIError) -> bool:
    """True if the transaction was rolled back because of others, and may succeed when retried."""
    cause = error.orig
    if isinstance(cause, sqlite3.OperationalError):
        return "is locked" in str(cause)
    if getattr(cause, "sqlstate", None) in _TEMPORARY_STATES:
        return True
    number = cause.args[0] if cause is not None and cause.args else None
    return number in _TEMPORARY_NUMBERS
