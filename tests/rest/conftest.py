# SPDX-License-Identifier: Apache-2.0
"""The API over a real SQLite store on a real server, and a client of it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from lakehand.rest import ApiContext
from lakehand.store import SqlStore, open_store
from tests.rest.parts import context_over, serving


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    file = shutil.copyfile(sqlite_template, tmp_path / "lakehand.db")
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


@pytest.fixture
def context(store: SqlStore) -> ApiContext:
    return context_over(store)


@pytest.fixture
def client_of() -> Iterator[Callable[[ApiContext], httpx.Client]]:
    """Serves context, and stops all servers at the end."""
    with ExitStack() as stack:
        yield lambda context: stack.enter_context(serving(context))


@pytest.fixture
def client(context: ApiContext, client_of: Callable[[ApiContext], httpx.Client]) -> httpx.Client:
    return client_of(context)
