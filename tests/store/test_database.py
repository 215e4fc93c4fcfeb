# SPDX-License-Identifier: Apache-2.0
"""Transactions: tried again when others are to blame, never when the outcome is in doubt, and told in our words."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.store import SqlStore, open_store
from lakehand.store import database as databases
from lakehand.store.database import Database, read_url
from tests.kit.quick_sqlite import SETTINGS
from tests.store.conftest import KINDS, empty
from tests.store.given import NOON, a_table, spec, table_count

LOCKED = OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "FIRST_WAIT", 0.0)


@pytest.fixture(params=[one for one in KINDS if one != "sqlite"])
def server_store(request: pytest.FixtureRequest) -> Iterator[SqlStore]:
    """A store on a database that is a server: connections may break, and lengths are kept."""
    store = open_store(request.getfixturevalue(f"migrated_{request.param}_url"))
    empty(store)
    yield store
    store.close()


def failing(times: int, error: Exception, then: str = "done") -> Callable[[Connection], str]:
    left = [error] * times

    def work(tx: Connection) -> str:
        if left:
            raise left.pop()
        return then

    return work


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:////tmp/x.db", "sqlite"),
        ("postgres://u:p@h/d", "postgresql+psycopg"),
        ("postgresql://h/d", "postgresql+psycopg"),
        ("mysql://h/d", "mysql+pymysql"),
        ("mariadb+pymysql://h/d", "mysql+pymysql"),
    ],
)
def test_a_url_gets_our_driver(given: str, driver: str) -> None:
    assert read_url(given).drivername == driver


@pytest.mark.parametrize("given", ["sqlite://", "sqlite:///:memory:", "oracle://h/d", "nonsense", ""])
def test_a_url_that_cannot_serve_is_refused_with_a_remedy(given: str) -> None:
    with pytest.raises(Invalid, match="sqlite"):
        read_url(given)


def test_a_refused_url_does_not_show_its_password() -> None:
    with pytest.raises(Invalid) as refusal:
        read_url("oracle://u:secret@h/d")

    assert "secret" not in str(refusal.value)


def test_a_transaction_that_others_undid_is_tried_again(store: SqlStore) -> None:
    assert store.database.write(failing(3, LOCKED)) == "done"
    assert store.database.read(failing(3, LOCKED)) == "done"


def test_trying_again_ends(store: SqlStore) -> None:
    with pytest.raises(Unavailable, match="busy or away: database is locked"):
        store.database.write(failing(1000, LOCKED))


def test_our_own_errors_pass_and_undo(store: SqlStore) -> None:
    def work(tx: Connection) -> NoReturn:
        tx.execute(text("DELETE FROM schedule"))
        raise KeyError("ours")

    table = a_table(store)
    with pytest.raises(KeyError):
        store.database.write(work)

    assert len(store.schedules.of_table(table.id)) == 1


def test_a_value_that_does_not_fit_is_the_callers_mistake(server_store: SqlStore) -> None:
    with pytest.raises(Invalid, match="refused a value"):
        server_store.tables.add(spec(owner="x" * 300), now=NOON)


def cut(store: SqlStore) -> None:
    """Break every connection that the pool holds, as a restart of the database does."""
    kill = {
        "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "mysql": "SELECT CONCAT('KILL ', id) FROM information_schema.processlist"
        " WHERE db = DATABASE() AND id <> CONNECTION_ID()",
    }[store.database.dialect]
    other = Database(store.database.url)
    with other.engine.connect() as connection:
        rows = connection.execute(text(kill)).all()
        if store.database.dialect == "mysql":
            for (statement,) in rows:
                connection.exec_driver_sql(statement)
    other.close()


def test_a_connection_that_broke_while_idle_is_replaced(server_store: SqlStore) -> None:
    a_table(server_store)
    cut(server_store)
    assert table_count(server_store) == 1
    cut(server_store)
    assert a_table(server_store, "/w/other").id


def test_a_commit_in_doubt_is_not_tried_again(server_store: SqlStore) -> None:
    runs: list[int] = []

    def work(tx: Connection) -> None:
        runs.append(1)
        tx.execute(text("DELETE FROM instance"))
        cut(server_store)

    with pytest.raises(Unavailable, match="during a commit"):
        server_store.database.write(work)

    assert len(runs) == 1
    assert table_count(server_store) == 0


def test_a_database_that_is_away_is_unavailable() -> None:
    store = open_store("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(Unavailable, match="does not answer"):
        store.clock.now()
    store.close()


def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/missing/x.db")
    with pytest.raises(Unavailable, match="unable to open"):
        store.clock.now()
    store.close()


def test_sqlite_is_durable_and_lets_readers_pass(migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "SQLITE_SETTINGS", SETTINGS)
    store = open_store(migrated_sqlite_url)

    def settings(tx: Connection) -> list[object]:
        return [tx.exec_driver_sql(f"PRAGMA {p}").scalar() for p in ("journal_mode", "synchronous", "foreign_keys")]

    assert store.database.read(settings) == ["wal", 2, 1]
    assert store.database.write(lambda tx: table_count(store)) == 0
    store.close()


def test_a_sqlite_writer_takes_the_lock_before_it_reads(migrated_sqlite_url: str) -> None:
    store = open_store(migrated_sqlite_url)
    rival = sqlite3.connect(str(store.database.url.database), timeout=0, isolation_level=None)

    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        store.database.write(lambda tx: (tx.execute(text("SELECT 1")), rival.execute("BEGIN IMMEDIATE")))

    rival.close()
    store.close()
