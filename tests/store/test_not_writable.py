# SPDX-License-Identifier: Apache-2.0
"""A database that can be read but not written: noticed, told as unavailable, and left for one that writes."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pymysql
import pytest
from psycopg import errors as postgresql_errors
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import InternalError

from lakehand.domain.errors import Unavailable
from lakehand.store import SqlStore, open_store
from lakehand.store import database as databases
from lakehand.store.database import translate
from lakehand.store.dialects import is_demoted
from tests.store.conftest import KINDS, empty
from tests.store.given import a_table, table_count

READ_ONLY = {  # of one session, as on a connection to a server that was demoted
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
}
SERVER_READ_ONLY = {  # of each new session
    "postgresql": ("ALTER DATABASE {} SET default_transaction_read_only = on", "ALTER DATABASE {} RESET ALL"),
    "mysql": ("SET GLOBAL tx_read_only = ON", "SET GLOBAL tx_read_only = OFF"),
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(databases, "STEADY", 0.0)
    monkeypatch.setattr(databases, "CHECK_SECONDS", 0.05)


@pytest.fixture(params=[one for one in KINDS if one != "sqlite"])
def server_store(request: pytest.FixtureRequest) -> Iterator[SqlStore]:
    store = open_store(request.getfixturevalue(f"migrated_{request.param}_url"))
    empty(store)
    yield store
    store.close()


@pytest.mark.parametrize(
    "error",
    [
        postgresql_errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"),
        postgresql_errors.CannotConnectNow("the database system is starting up"),
        pymysql.err.OperationalError(1290, "The MariaDB server is running with the --read-only option"),
        pymysql.err.OperationalError(1836, "Running in read-only mode"),
        pymysql.err.OperationalError(1792, "Cannot execute statement in a READ ONLY transaction"),
        pymysql.err.OperationalError(1047, "WSREP has not yet prepared node for application use"),
    ],
    ids=repr,
)
def test_a_server_that_does_not_write_is_demoted(error: Exception) -> None:
    assert is_demoted(error)


@pytest.mark.parametrize(
    "error", [postgresql_errors.IdleInTransactionSessionTimeout("x"), postgresql_errors.DiskFull("x")], ids=repr
)
def test_what_a_driver_calls_internal_is_unavailable_if_it_is_the_servers(error: Exception) -> None:
    assert isinstance(translate(InternalError("UPDATE", {}, error), "the database"), Unavailable)


def test_a_write_leaves_connections_of_a_server_that_was_demoted(server_store: SqlStore) -> None:
    demote_connections(server_store)

    a_table(server_store)

    assert table_count(server_store) == 1


def test_a_server_that_became_read_only_is_unavailable_until_it_writes_again(server_store: SqlStore) -> None:
    with read_only_server(server_store):
        assert table_count(server_store) == 0, "reading works"
        for refused in (server_store.check_writes, lambda: a_table(server_store)):
            with pytest.raises(Unavailable, match=r"(?i)read.only"):
                refused()
        assert server_store.problem()

    server_store.check_writes()
    a_table(server_store)
    assert not server_store.problem()


def test_sqlite_that_another_program_has_locked_is_unavailable_until_it_is_free(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(databases, "RETRY_FOR", 0.0)
    with closing(open_store(migrated_sqlite_url)) as store:
        with locked(Path(migrated_sqlite_url.removeprefix("sqlite:///"))):
            assert table_count(store) == 0, "reading works"
            refusals: list[Callable[[], object]] = [store.check_writes, lambda: a_table(store)]
            for refused in refusals:
                with pytest.raises(Unavailable, match="is locked; another program"):
                    refused()
        store.check_writes()
        a_table(store)
        assert not store.problem()


def test_a_check_does_not_wait_for_a_write_that_does_not_end(migrated_sqlite_url: str) -> None:
    with closing(open_store(migrated_sqlite_url)) as store:
        assert hasattr(store.database.write_lock, "acquire")
        with store.database.write_lock, pytest.raises(Unavailable, match="while one waits"):
            store.check_writes()
        store.check_writes()


def test_a_check_changes_nothing_and_a_write_makes_it_needless(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(migrated_sqlite_url)) as store:
        store.check_writes()
        monkeypatch.setattr(databases, "STEADY", 60.0)
        a_table(store)
        with store.database.write_lock:
            store.check_writes()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def demote_connections(store: SqlStore) -> None:
    with store.database.engine.connect() as connection:
        connection.execute(text(READ_ONLY[store.database.dialect]))
        connection.commit()


@contextmanager
def read_only_server(store: SqlStore) -> Iterator[None]:
    on, off = (one.format(store.database.url.database) for one in SERVER_READ_ONLY[store.database.dialect])
    admin = create_engine(store.database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        if store.database.dialect == "postgresql":
            connection.execute(text("SET default_transaction_read_only = off"))
        connection.execute(text(on))
        store.database.engine.dispose()
        try:
            yield
        finally:
            connection.execute(text(off))
            store.database.engine.dispose()
