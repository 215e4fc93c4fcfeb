# SPDX-License-Identifier: Apache-2.0
"""The throw-away databases are what the other tests believe them to be: real, empty, and each test's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect, text

from tests.databases import Server


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


@pytest.mark.server
@pytest.mark.parametrize("round", ["first", "second"])
def test_every_test_starts_with_an_empty_database(url: str, round: str) -> None:
    engine = create_engine(url, poolclass=NullPool)
    assert inspect(engine).get_table_names() == []

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE guest (name VARCHAR(20))"))
        connection.execute(text("INSERT INTO guest VALUES ('Žofie 🐘')"))
        assert connection.scalar(text("SELECT name FROM guest")) == "Žofie 🐘"


def test_a_database_is_dropped_although_someone_is_still_connected(postgresql_server: Server) -> None:
    with postgresql_server.fresh_database() as url:
        connection = create_engine(url, poolclass=NullPool).connect()
    connection.invalidate()
    connection.close()


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("false", "1 skipped")])
def test_a_missing_server_is_skipped_here_and_fails_in_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import mariadb_server, mariadb_url\n")
    (tmp_path / "test_it.py").write_text("def test_it(mariadb_url): pass\n")
    nothing = "import tests.databases as d; d.SBIN = ''; import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", nothing, "-ra", "--rootdir", str(tmp_path), str(tmp_path)]

    result = subprocess.run(
        command,
        env={
            **os.environ,
            "CI": ci,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATH": str(tmp_path),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome in result.stdout
    assert "install the package mariadb-server" in result.stdout
