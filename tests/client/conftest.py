# SPDX-License-Identifier: Apache-2.0
"""The client against a real server on a real SQLite store: each test runs with the sync and with the async client."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lakehand.client import LakehandClient
from lakehand.store import SqlStore, open_store
from tests.client.blocking import BlockingClient
from tests.rest.parts import Listed, context_over, serving

KINDS: dict[str, Callable[..., Any]] = {"sync": LakehandClient, "async": BlockingClient}
MakeClient = Callable[..., LakehandClient]


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    file = shutil.copyfile(sqlite_template, tmp_path / "lakehand.db")
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


@pytest.fixture
def url(store: SqlStore) -> Iterator[str]:
    with serving(context_over(store, listed=Listed(["new"]))) as http:
        yield str(http.base_url)


@pytest.fixture(params=sorted(KINDS))
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    """Makes clients of one kind, and closes them at the end. The async one is typed as if it were the other."""
    with ExitStack() as stack:

        def make(*arguments: Any, **named: Any) -> LakehandClient:
            made = KINDS[request.param](*arguments, **named)
            stack.callback(made.close)
            return made  # type: ignore[no-any-return]

        yield make


@pytest.fixture
def client(make_client: MakeClient, url: str) -> LakehandClient:
    return make_client(url)
