# SPDX-License-Identifier: Apache-2.0
"""The gRPC API over a real SQLite store on a real server, and a client of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.rest import ApiContext
from lakehand.store import SqlStore, open_store
from tests.rest.parts import context_over
from tests.rpc.parts import RpcClient, rpc_context, rpc_serving


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    file = shutil.copyfile(sqlite_template, tmp_path / "lakehand.db")
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


@pytest.fixture
def api(store: SqlStore) -> ApiContext:
    return context_over(store)


@pytest.fixture
def client(api: ApiContext) -> Iterator[RpcClient]:
    with rpc_serving(rpc_context(api)) as client:
        yield client
