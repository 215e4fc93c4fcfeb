# SPDX-License-Identifier: Apache-2.0
"""The lakehand command as people type it, against a real server on a real SQLite store."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from lakehand.cli import app
from lakehand.store import SqlStore, open_store
from tests.rest.parts import context_over, serving

Run = Callable[..., Result]
COMMAND = get_command(app)  # the runner would build all subcommands again at each call


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    file = shutil.copyfile(sqlite_template, tmp_path / "lakehand.db")
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


@pytest.fixture
def url(store: SqlStore) -> Iterator[str]:
    with serving(context_over(store)) as client:
        yield str(client.base_url)


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command without a service."""
    monkeypatch.setattr("typer.testing._get_command", lambda _: COMMAND)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    for name in ("LAKEHAND_URL", "LAKEHAND_TOKEN", "LAKEHAND_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return lambda *words, **more: CliRunner().invoke(app, [str(word) for word in words], **more)


@pytest.fixture
def lakehand(type_in: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command against the service."""
    monkeypatch.setenv("LAKEHAND_URL", url)
    return type_in


def answer(result: Result) -> Any:
    """The JSON that a command printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
