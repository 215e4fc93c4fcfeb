# SPDX-License-Identifier: Apache-2.0
"""A migrated, empty store on each kind of database: migrated once, emptied before each test."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path

import pytest

from lakehand.store import SqlStore, open_store
from lakehand.store.migrate import upgrade
from lakehand.store.schema import metadata
from tests.databases import Server
from tests.store.racers import get_ready

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.server),
    pytest.param("mariadb", marks=pytest.mark.server),
)
RACERS = 8


@pytest.fixture
def migrated_sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'store.db')}"


@pytest.fixture(scope="session")
def migrated_postgresql_url(postgresql_server: Server) -> Iterator[str]:
    yield from migrated(postgresql_server)


@pytest.fixture(scope="session")
def migrated_mariadb_url(mariadb_server: Server) -> Iterator[str]:
    yield from migrated(mariadb_server)


def migrated(server: Server) -> Iterator[str]:
    with server.fresh_database() as url:
        upgrade(url)
        yield url


@pytest.fixture(params=KINDS)
def migrated_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return url


@pytest.fixture(params=KINDS)
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without any table of ours."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(migrated_url: str) -> Iterator[SqlStore]:
    store = open_store(migrated_url)
    if store.database.dialect != "sqlite":
        empty(store)
    yield store
    store.close()


def empty(store: SqlStore) -> None:
    store.database.write(lambda tx: [tx.execute(table.delete()) for table in reversed(metadata.sorted_tables)])


@pytest.fixture(scope="session")
def racers() -> Iterator[ProcessPoolExecutor]:
    """Processes that start each race together. What they need is imported once, by the process that forks them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.racers"])
    line = context.Barrier(RACERS)
    with ProcessPoolExecutor(RACERS, mp_context=context, initializer=get_ready, initargs=(line,)) as pool:
        wait([pool.submit(os.getpid) for _ in range(RACERS)])  # all of them, and the thread that minds them, are there
        yield pool
