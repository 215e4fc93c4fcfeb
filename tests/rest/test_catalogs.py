# SPDX-License-Identifier: Apache-2.0
"""Catalogs over REST, with a format whose catalog the test writes."""

from collections.abc import Callable

import httpx
import pytest

from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from tests.rest.parts import Listed, context_over, items, kinds

SYNC = "/api/v1/catalogs/lake/sync"


@pytest.fixture
def listed() -> Listed:
    return Listed(["orders", "returns"])


@pytest.fixture
def client(store: SqlStore, listed: Listed, client_of: Callable[[ApiContext], httpx.Client]) -> httpx.Client:
    return client_of(context_over(store, listed=listed))


def names(client: httpx.Client) -> list[str]:
    return [table["table_name"] for table in items(client, "/api/v1/tables?catalog=lake")]


def test_a_catalog_is_synced_on_demand(client: httpx.Client) -> None:
    report = client.post(SYNC).json()

    assert (report["added"], report["tables"]) == (["db.orders", "db.returns"], 2)
    assert names(client) == ["orders", "returns"]
    assert items(client, "/api/v1/tables?catalog=pond") == []
    assert {table["owner"] for table in items(client, "/api/v1/tables")} == {"ann"}


def test_the_list_shows_the_last_sync_and_no_secret(client: httpx.Client) -> None:
    before = client.get("/api/v1/catalogs").json()["items"]
    client.post(SYNC)
    [after] = client.get("/api/v1/catalogs").json()["items"]

    assert before[0]["last_sync"] is None
    assert (after["name"], after["type"], after["properties"]) == ("lake", "rest", ["uri"])
    assert after["last_sync"]["tables"] == 2
    assert "hush" not in str(after)


def test_an_unreadable_catalog_says_so_without_its_password(client: httpx.Client, listed: Listed) -> None:
    client.post(SYNC)
    listed.names = None

    report = client.post(SYNC).json()

    assert "cannot reach https://ann:***@lake" in report["problem"]
    assert names(client) == ["orders", "returns"]
    assert "catalog.trouble" in kinds(client)


def test_what_is_dropped_is_retired_and_an_empty_list_must_be_confirmed(client: httpx.Client, listed: Listed) -> None:
    client.post(SYNC)
    listed.names = ["orders"]
    assert client.post(SYNC, json={"dry_run": True}).json()["retired"] == ["db.returns"]
    assert client.post(SYNC).json()["retired"] == ["db.returns"]
    listed.names = []

    assert client.post(SYNC).json()["missing"] == ["db.orders"]
    assert client.post(SYNC, json={"accept_empty": True}).json()["retired"] == ["db.orders"]
    assert names(client) == []


def test_a_catalog_that_is_not_there_is_not_found(client: httpx.Client) -> None:
    answer = client.post("/api/v1/catalogs/pond/sync")

    assert answer.status_code == 404
    assert "lake" in answer.json()["error"]["message"]
