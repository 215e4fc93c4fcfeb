# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests: a fresh, empty database of each kind."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.databases import Server, ServerMissing, mariadb, postgresql


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for a database server says so, and need not say it twice."""
    for item in items:
        if {"postgresql_server", "mariadb_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.database)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    yield from server_of(postgresql)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Server]:
    yield from server_of(mariadb)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'lakehand.db'}"


@pytest.fixture
def postgresql_url(postgresql_server: Server) -> Iterator[str]:
    with postgresql_server.fresh_database() as url:
        yield url


@pytest.fixture
def mariadb_url(mariadb_server: Server) -> Iterator[str]:
    with mariadb_server.fresh_database() as url:
        yield url


def server_of(start: Callable[[], AbstractContextManager[Server]]) -> Iterator[Server]:
    """A missing server is a visible skip on a developer's machine and a failure where all must be tested."""
    try:
        with start() as server:
            yield server
    except ServerMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
