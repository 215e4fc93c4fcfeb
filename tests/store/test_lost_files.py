# SPDX-License-Identifier: Apache-2.0
"""SQLite's files deleted, replaced, full, damaged or read-only: noticed, told in one sentence, never a false yes."""

import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.store import SqlStore, migrate, open_store
from lakehand.store import database as databases
from lakehand.store.database import DatabaseLost, read_url
from lakehand.testing import eventually
from tests.store.given import a_table, table_count


@pytest.fixture
def store(migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    monkeypatch.setattr(databases, "STEADY", 0.0)
    store = open_store(migrated_sqlite_url)
    a_table(store)
    yield store
    store.close()


@pytest.fixture
def file(store: SqlStore) -> Path:
    return Path(str(store.database.url.database))


def delete(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    shutil.copy(file, f"{file}.copy")
    Path(f"{file}.copy").replace(file)


def delete_log(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def delete_index(file: Path) -> None:
    Path(f"{file}-shm").unlink()


@pytest.mark.parametrize("harm", [delete, replace, delete_log, delete_index])
def test_a_file_that_is_gone_takes_nothing_more_and_is_told_once(
    store: SqlStore, file: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    harm(file)

    for _ in range(3):
        with pytest.raises(DatabaseLost, match=r"deleted or replaced while it was open.*from a backup"):
            a_table(store, "/w/other")
        with pytest.raises(DatabaseLost):
            store.clock.now()
    lost = [record for record in caplog.records if "deleted or replaced" in record.getMessage()]
    assert [record.levelno for record in lost] == [logging.ERROR]
    assert "deleted or replaced" in store.problem()


def test_a_file_that_goes_during_a_transaction_is_noticed_before_the_row_counts_as_stored(
    store: SqlStore, file: Path
) -> None:
    with pytest.raises(DatabaseLost):
        store.database.write(lambda tx: file.unlink())


def test_a_file_that_was_moved_away_and_back_is_served_again(store: SqlStore, file: Path) -> None:
    before = table_count(store)
    file.rename(f"{file}.away")
    with pytest.raises(DatabaseLost):
        a_table(store, "/w/another")
    with pytest.raises(DatabaseLost):
        table_count(store)
    assert not file.exists(), "no empty database is made in its place"
    Path(f"{file}.away").rename(file)

    # Whether the refused table reached the file that was away depends on when that was noticed.
    assert table_count(store) in (before, before + 1)
    assert a_table(store, "/w/other").id
    assert store.problem() == ""


def test_reading_notices_it_too(store: SqlStore, file: Path) -> None:
    file.unlink()

    def is_noticed() -> bool:
        with suppress(DatabaseLost):
            store.clock.now()
            return False
        return True

    eventually(is_noticed)


def test_no_connection_makes_an_empty_database_in_its_place(store: SqlStore, file: Path) -> None:
    store.database.engine.dispose()
    file.unlink()

    with pytest.raises(DatabaseLost):
        store.database.write(lambda tx: None)
    assert not file.exists()


def test_connections_that_were_all_closed_may_find_another_log(store: SqlStore) -> None:
    store.database.engine.dispose()

    assert a_table(store, "/w/other").id


def no_more_pages(connection: Any, _record: object) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_is_reported_with_its_remedy_until_it_is_over(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.database.engine.dispose()
    event.listen(store.database.engine, "connect", no_more_pages)
    with pytest.raises(Unavailable, match="is full; free some space"):
        a_table(store, "/w/" + "x" * 1000, table_name="y" * 200, properties={"p": "z" * 10_000})

    assert "free some space" in store.problem()
    assert table_count(store) == 1, "reading works meanwhile"
    event.remove(store.database.engine, "connect", no_more_pages)
    store.database.engine.dispose()
    assert a_table(store, "/w/other").id
    assert store.problem() == ""
    reported = [record.getMessage() for record in caplog.records if " accept" in record.getMessage()]
    assert reported == ["the database does not accept writes", "the database accepts writes again"]


def test_one_small_write_that_works_is_no_proof_that_the_disk_has_space_again(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "STEADY", 600.0)
    store.database.report("the disk is full")
    assert a_table(store, "/w/other").id
    assert store.problem() == "the disk is full"

    monkeypatch.setattr(databases, "STEADY", 0.0)
    assert a_table(store, "/w/another").id
    assert store.problem() == ""


@pytest.mark.parametrize("content", [b"no database at all" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_named_with_the_next_step(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "lakehand.db"
    file.write_bytes(content)

    with pytest.raises(Unavailable, match=rf"{file} is damaged.*from a backup"):
        migrate.upgrade(f"sqlite:///{file}")


def test_a_file_that_is_damaged_in_the_middle_is_named_with_the_next_step(store: SqlStore, file: Path) -> None:
    store.close()
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))

    with pytest.raises(Unavailable, match=rf"{file} is damaged"):
        table_count(open_store(f"sqlite:///{file}"))


def test_a_database_that_cannot_be_written_is_reported_with_the_next_step(store: SqlStore, file: Path) -> None:
    def read_only(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    store.database.engine.dispose()
    event.listen(store.database.engine, "connect", read_only)

    with pytest.raises(Unavailable, match=r"readonly database; .* check owner"):
        a_table(store, "/w/other")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////tmp/x.db?y=1",
        "postgresql://user:hush@h/d?foo=1",
        "mysql://user:hush@h/d?foo=1&charset=utf8mb4",
        "mariadb://h/d?sslmode=require",
    ],
)
def test_a_parameter_that_no_driver_knows_is_named(url: str) -> None:
    with pytest.raises(Invalid, match=r"unknown parameter '(y|foo|sslmode)': known are") as refusal:
        read_url(url)

    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["postgresql://h/d?sslmode=require&application_name=lakehand", "mysql://h/d?charset=utf8mb4&ssl_ca=/x"]
)
def test_a_parameter_that_the_driver_knows_is_taken(url: str) -> None:
    assert read_url(url).query


def test_what_is_in_the_file_stays_readable_to_others_that_opened_it(store: SqlStore, file: Path) -> None:
    """Watching the files takes no lock and opens nothing."""
    assert sqlite3.connect(file).execute("SELECT count(*) FROM tbl").fetchone() == (1,)
    assert a_table(store, "/w/other").id
