# SPDX-License-Identifier: Apache-2.0
"""Catalogs over REST, with a format whose catalog the test writes."""

import gc
from collections.abc import Callable, Iterator

import httpx
import pytest

from lakehand.core.services import catalog_changes
from lakehand.core.services import catalogs as catalog_service
from lakehand.core.services.catalogs import CatalogService
from lakehand.domain.tables import Catalog, Table, TableReference
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
    catalogs = context_over(store, listed=listing).services.catalogs

    cut = catalogs.sync_now("lake")
    registered = len(list(catalogs.registered("lake")))
    listing.most = 100
    whole = catalogs.sync_now("lake")

    assert (cut.problem != "", registered) == (True, 20)
    assert (whole.tables, len(whole.added), whole.refused) == (100, 80, {})
    assert len(list(catalogs.registered("lake"))) == 100
    assert list(catalogs.sync_now("lake").added) == []


class Killed(BaseException):
    """Nothing catches it, as nothing catches the end of a process."""


class CutListing(Listed):
    """A catalog of many tables, and what becomes of the process while it lists one of them."""

    def __init__(self, count: int, at: int = -1, then: Callable[[], None] = lambda: None) -> None:
        self.count, self.at, self.then = count, at, then

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        for number in range(self.count):
            if number == self.at:
                self.then()
            yield TableReference(location=f"/data/t{number}", catalog=catalog, db_name="db", table_name=f"t{number}")


def kill() -> None:
    raise Killed


def test_a_sync_that_was_killed_goes_on_where_it_stopped(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_service, "BATCH", 10)
    with pytest.raises(Killed):
        context_over(store, listed=CutListing(60, at=45, then=kill)).services.catalogs.sync_now("lake")
    first = {table.id for table in context_over(store).services.catalogs.registered("lake")}

    again = context_over(store, listed=CutListing(60)).services.catalogs
    report = again.sync_now("lake")

    assert (len(first), report.problem, len(report.added), report.refused) == (40, "", 20, {})
    assert report.added == [f"db.t{number}" for number in range(40, 60)]
    assert {table.id for table in again.registered("lake")} > first


def test_a_sync_keeps_no_more_than_a_batch_of_tables(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole ones, that is: 100 000 of them are hundreds of megabytes."""
    monkeypatch.setattr(catalog_service, "BATCH", 10)
    monkeypatch.setattr(catalog_service, "PAGE", 10)
    whole: list[int] = []

    def count() -> None:
        gc.collect()
        whole.append(sum(isinstance(one, TableReference | Table) for one in gc.get_objects()))

    count()
    before = whole.pop()
    for _ in range(2):  # the second time they are registered
        context_over(store, listed=CutListing(200, at=195, then=count)).services.catalogs.sync_now("lake")
    catalogs, registered = context_over(store, listed=CutListing(200)).services.catalogs, CatalogService.registered

    def counted(self: CatalogService, name: str) -> Iterator[Table]:
        for number, table in enumerate(registered(self, name)):
            if number == 195:
                count()
            yield table

    monkeypatch.setattr(CatalogService, "registered", counted)
    catalogs.sync_now("lake")

    assert len(whole) == 3
    assert max(whole) - before <= 3 * 10


def test_a_catalog_that_lists_without_end_is_cut_and_nothing_is_retired(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_service, "BATCH", 10)
    context_over(store, listed=Listed(["orders"])).services.catalogs.sync_now("lake")
    monkeypatch.setattr(catalog_changes, "MOST_TABLES", 30)
    endless = context_over(store, listed=CutListing(1000)).services.catalogs
    report = endless.sync_now("lake", accept_empty=True)

    assert "the catalog lake lists more than 30 tables" in report.problem
    assert (report.retired, report.tables) == ([], 0)
    assert len(list(endless.registered("lake"))) == 31
    assert "db.orders" in {table.name for table in endless.registered("lake")}
