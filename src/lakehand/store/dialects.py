# SPDX-License-Identifier: Apache-2.0
"""Where the databases differ: inserts that conflict with a row, temporary errors, servers that do not write."""

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
# A server that was demoted or does not serve yet; another connection may reach the one that does.
_DEMOTED_STATES = {"25006", "57P03"}  # read-only transaction, cannot connect now
_DEMOTED_NUMBERS = {1047, 1290, 1792, 1836}  # Galera: not prepared; --read-only; read-only transaction; read-only mode
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")  # connection, resources, operator, system
_UNAVAILABLE_STATES = {"25P03"}  # idle in a transaction for too long


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
    return getattr(cause, "sqlstate", None) in _TEMPORARY_STATES or number_of(cause) in _TEMPORARY_NUMBERS


def is_demoted(cause: BaseException | None) -> bool:
    """True if this server does not write, for instance as a standby after a failover."""
    return getattr(cause, "sqlstate", None) in _DEMOTED_STATES or number_of(cause) in _DEMOTED_NUMBERS


def is_unavailable(cause: BaseException | None) -> bool:
    """True for states that drivers call internal errors, though they are the server's and not ours."""
    state = getattr(cause, "sqlstate", None) or ""
    return state.startswith(_UNAVAILABLE_CLASSES) or state in _UNAVAILABLE_STATES


def number_of(cause: BaseException | None) -> object:
    """MySQL's number of the error."""
    return cause.args[0] if cause is not None and cause.args else None
