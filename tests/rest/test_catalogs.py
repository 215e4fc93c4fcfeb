# SPDX-License-Identifier: Apache-2.0
"""Catalogs over REST, with a format whose catalog the test writes."""

from collections.abc import Callable, Iterator

import httpx
import pytest

from lakehand.core.services import catalogs as catalog_service
from lakehand.domain.references import Catalog, TableReference
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


class EndlessListing(Listed):
    """A catalog that fails after many tables, as when the service is ended meanwhile."""

    loaded = 0
    most = 25

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        for number in range(100):
            if number >= self.most:
                raise OSError("the service is ended")
            self.loaded += 1
            yield TableReference(location=f"/data/t{number}", catalog=catalog, db_name="db", table_name=f"t{number}")


def test_a_large_catalog_is_registered_in_batches_and_goes_on_after_a_restart(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_service, "BATCH", 10)
    listing = EndlessListing()
    catalogs = context_over(store, listed=listing).catalogs

    cut = catalogs.sync("lake")
    registered = len(list(catalogs.registered("lake")))
    listing.most = 100
    whole = catalogs.sync("lake")

    assert (cut.problem != "", registered) == (True, 20)
    assert (whole.tables, len(whole.added), whole.refused) == (100, 80, {})
    assert len(list(catalogs.registered("lake"))) == 100
    assert list(catalogs.sync("lake").added) == []
