# SPDX-License-Identifier: Apache-2.0
"""Which address a request comes from: the connection's, unless a trusted proxy passes another one on."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakehand.app.server import http_config
from lakehand.app.settings import load
from lakehand.core.ports import AuditFilter
from lakehand.store import SqlStore, open_store
from tests.rest.parts import context_over

CLAIMED = "203.0.113.9"


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")
    yield opened
    opened.close()


CASES = {
    "this machine": ([], "127.0.0.1", "127.0.0.1"),
    "anybody": ([], "10.0.0.5", "10.0.0.5"),
    "this machine, beside a proxy": (["10.0.0.5"], "127.0.0.1", "127.0.0.1"),
    "a proxy": (["10.0.0.5"], "10.0.0.5", CLAIMED),
    "a network of proxies": (["10.0.0.0/24"], "10.0.0.77", CLAIMED),
}


@pytest.mark.parametrize("case", CASES)
def test_a_claimed_address_is_believed_from_trusted_proxies_alone(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    trusted, connection, address = CASES[case]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # a name of uvicorn's, which is not a setting of ours
    config = http_config(context_over(store), load({"home": tmp_path, "trusted_proxies": trusted}))
    config.load()

    answer = asyncio.run(register(config.loaded_app, connection))

    assert answer.is_success, answer.text
    [entry] = store.audit.list(AuditFilter(), limit=9, cursor=None).items
    assert entry.request.caller.address == address


async def register(app: Any, connection: str) -> httpx.Response:
    inner = app
    while hasattr(inner, "app"):
        inner = inner.app
    transport = httpx.ASGITransport(app, client=(connection, 4711))
    async with (
        inner.router.lifespan_context(inner),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        return await client.post("/api/v1/tables", json={"location": "/data/t"}, headers={"X-Forwarded-For": CLAIMED})
