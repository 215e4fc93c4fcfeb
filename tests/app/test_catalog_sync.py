# SPDX-License-Identifier: Apache-2.0
"""Following real catalogs: Iceberg in SQLite and in folders, Paimon in folders; wired as the service has it."""

import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from lakehand.api.tables import ChangedTable
from lakehand.app import wiring
from lakehand.app.settings import load
from lakehand.app.wiring import Service
from lakehand.core.ports import TableFilter
from lakehand.core.services.catalog_changes import Absent, named
from lakehand.domain.access import Caller, Role
from lakehand.domain.tables import Format, Table, TableSpec
from lakehand.store import migrate
from tests.formats.paimon.handmade import HandMade, small
from tests.kit.polling import wait_for
from tests.small_tables import SqlCatalog

ROOT = Caller(name="root", role=Role.ADMIN)


def service_of(home: Path, toml: str, database: str) -> Service:
    home.mkdir(mode=0o700)
    config = home / "lakehand.toml"
    config.write_text(toml)
    settings = load({"home": home, "database": database}, config)
    migrate.upgrade(settings.database_url)
    return wiring.build(settings)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog(tmp_path / "lake")
    yield made
    made.close()


@pytest.fixture
def service(tmp_path: Path, catalog: SqlCatalog, sqlite_url: str) -> Iterator[Service]:
    built = service_of(tmp_path / "home", catalog.settings, sqlite_url)
    yield built
    built.stop()


def tables(service: Service, *, removed: bool = False) -> dict[str, Table]:
    page = service.store.tables.list(TableFilter(removed=removed), limit=100, cursor=None)
    return {table.name: table for table in page.items}


def kinds(service: Service) -> list[str]:
    return [stored.event.kind for stored in service.store.events.list(limit=100).items]


def test_new_tables_are_registered_once_for_all_that_is_not_optional(service: Service, catalog: SqlCatalog) -> None:
    location = catalog.create("orders")
    catalog.create("returns")

    first, second = service.catalogs.sync_now("lake"), service.catalogs.sync_now("lake")

    assert (list(first.added), list(second.added), second.tables) == (["sales.orders", "sales.returns"], [], 2)
    orders = tables(service)["sales.orders"]
    assert (orders.location, orders.spec.catalog, orders.spec.format) == (str(location), "lake", "iceberg")
    by_location = service.tables.checked(TableSpec(location=str(location), format=orders.format))
    for spec in (orders.spec, by_location):
        optional = frozenset(service.plugins.actions_of(orders.format)) - spec.action_types
        assert optional == {"compute-statistics", "compute-partition-statistics", "expire-data"}


def test_a_dry_run_changes_nothing(service: Service, catalog: SqlCatalog) -> None:
    catalog.create("orders")

    report = service.catalogs.sync_now("lake", dry_run=True)

    assert (list(report.added), report.dry_run) == (["sales.orders"], True)
    assert tables(service) == {}


def test_a_dropped_table_is_retired_with_a_word_and_comes_back_with_its_number(
    service: Service, catalog: SqlCatalog
) -> None:
    catalog.create("orders")
    catalog.create("returns")
    service.catalogs.sync_now("lake")
    number = tables(service)["sales.orders"].id
    catalog.drop("orders")

    assert list(service.catalogs.sync_now("lake").retired) == ["sales.orders"]
    assert list(tables(service)) == ["sales.returns"]
    assert tables(service, removed=True)["sales.orders"].id == number
    assert "table.retired" in kinds(service)


def test_a_renamed_table_keeps_its_number_and_what_was_set_for_it(service: Service, catalog: SqlCatalog) -> None:
    catalog.create("orders")
    service.catalogs.sync_now("lake")
    before = tables(service)["sales.orders"]
    service.tables.change(ROOT, before.id, ChangedTable(priority=7, owner="ann"))
    catalog.rename("orders", "purchases")

    report = service.catalogs.sync_now("lake")

    after = tables(service)["sales.purchases"]
    assert list(report.renamed) == ["sales.orders → sales.purchases"]
    assert (after.id, after.spec.priority, after.spec.owner) == (before.id, 7, "ann")


def test_whoever_comes_second_with_an_old_list_takes_nothing_away(service: Service, catalog: SqlCatalog) -> None:
    catalog.create("orders")
    service.catalogs.sync_now("lake")
    before = tables(service)["sales.orders"]
    old = Absent(before.id, before.name, named(before))
    catalog.rename("orders", "purchases")
    service.catalogs.sync_now("lake")

    service.catalogs.retire([old], service.catalogs.get("lake").catalog)

    assert list(tables(service)) == ["sales.purchases"]
    assert kinds(service).count("table.retired") == 1


def test_a_catalog_that_cannot_be_read_retires_nothing(service: Service, catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create("orders")
    service.catalogs.sync_now("lake")
    catalog.close()
    (tmp_path / "lake" / "catalog.db").write_bytes(b"no database" * 1000)

    reports = [service.catalogs.sync_now("lake") for _ in range(3)]

    assert all(report.problem and not report.retired for report in reports)
    assert list(tables(service)) == ["sales.orders"]
    assert kinds(service).count("catalog.trouble") == 1


def test_a_catalog_that_lists_nothing_retires_nothing_until_it_is_believed(
    service: Service, catalog: SqlCatalog
) -> None:
    catalog.create("orders")
    service.catalogs.sync_now("lake")
    catalog.drop("orders")

    kept = [service.catalogs.sync_now("lake") for _ in range(3)]
    believed = service.catalogs.sync_now("lake", accept_empty=True)

    assert [list(report.missing) for report in kept] == [["sales.orders"]] * 3
    assert list(believed.retired) == ["sales.orders"]


def test_a_folder_of_tables_is_a_catalog_and_a_lost_one_is_unreadable(tmp_path: Path, sqlite_url: str) -> None:
    made = SqlCatalog(tmp_path / "made")
    warehouse = tmp_path / "warehouse"
    shutil.copytree(made.create("orders"), warehouse / "sales" / "orders")
    shutil.copytree(made.create("returns"), warehouse / "sales" / "returns")
    made.close()
    toml = f'[catalogs.lake]\ntype = "hadoop"\nproperties = {{ warehouse = "{warehouse}" }}\n'
    service = service_of(tmp_path / "home", toml, sqlite_url)

    assert sorted(service.catalogs.sync_now("lake").added) == ["sales.orders", "sales.returns"]
    warehouse.rename(tmp_path / "unmounted")
    assert service.catalogs.sync_now("lake").problem
    assert sorted(tables(service)) == ["sales.orders", "sales.returns"]
    service.stop()


def test_a_warehouse_of_paimon_is_a_catalog(tmp_path: Path, sqlite_url: str) -> None:
    HandMade(tmp_path / "warehouse" / "sales.db" / "orders").commit(small(3))
    properties = f'{{ warehouse = "{tmp_path / "warehouse"}" }}'
    toml = f'[catalogs.streams]\nformat = "paimon"\ntype = "filesystem"\nproperties = {properties}\n'
    service = service_of(tmp_path / "home", toml, sqlite_url)

    assert list(service.catalogs.sync_now("streams").added) == ["sales.orders"]
    assert service.tables.find("streams:sales.orders").spec.action_types >= {"compact", "expire-snapshots"}
    service.stop()


def test_two_instances_that_sync_at_once_end_in_the_same_state(
    tmp_path: Path, service: Service, catalog: SqlCatalog, sqlite_url: str
) -> None:
    other = service_of(tmp_path / "other", catalog.settings, sqlite_url)
    for number in range(12):
        catalog.create(f"t{number}")

    def look_together() -> None:
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(lambda one: one.catalogs.sync_now("lake"), (service, other)))
        assert [(report.problem, report.refused) for report in reports] == [("", {}), ("", {})]

    look_together()
    catalog.drop("t0")
    catalog.rename("t1", "renamed")
    look_together()

    other.stop()
    assert sorted(tables(service)) == sorted(["sales.renamed", *(f"sales.t{number}" for number in range(2, 12))])
    assert kinds(service).count("table.registered") >= 12


def test_the_same_names_in_two_catalogs_are_two_tables(tmp_path: Path, catalog: SqlCatalog, sqlite_url: str) -> None:
    second = SqlCatalog(tmp_path / "pond", "pond")
    for one in (catalog, second):
        one.create("orders")
    service = service_of(tmp_path / "home", catalog.settings + second.settings, sqlite_url)
    service.catalogs.run_once()

    assert service.tables.find("pond:sales.orders").spec.catalog == "pond"
    assert service.tables.find("lake:sales.orders").spec.catalog == "lake"
    assert {name: report.refused for name, report in service.catalogs.last.items()} == {"lake": {}, "pond": {}}
    second.close()
    service.stop()


def test_one_table_that_is_refused_stops_no_other(service: Service, catalog: SqlCatalog) -> None:
    location = catalog.create("orders")
    catalog.create("returns")
    service.tables.register(TableSpec(location=str(location), format=Format("iceberg")))

    report = service.catalogs.sync_now("lake")

    assert list(report.added) == ["sales.returns"]
    assert "registered already as table 1, by its location" in report.refused["sales.orders"]


def test_a_table_that_cannot_be_read_stops_no_other_and_is_not_retired(service: Service, catalog: SqlCatalog) -> None:
    catalog.create("orders")
    catalog.create("returns")
    service.catalogs.sync_now("lake")
    tear_metadata(catalog.create("visits"))
    tear_metadata(Path(tables(service)["sales.orders"].location))
    catalog.create("new")

    report = service.catalogs.sync_now("lake")

    assert (list(report.added), list(report.retired), report.problem) == (["sales.new"], [], "")
    assert list(report.refused) == ["sales.visits"]
    assert "it cannot be read" in report.refused["sales.visits"]
    assert "sales.orders" in tables(service)


def tear_metadata(location: Path) -> None:
    for file in (location / "metadata").glob("*.metadata.json"):
        file.write_text(file.read_text()[:100])


def test_a_catalog_that_hangs_delays_no_other(
    tmp_path: Path, catalog: SqlCatalog, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one accepts connections and never answers."""
    monkeypatch.setattr("lakehand.formats.iceberg.rest_client.READ", 4.0)
    catalog.create("orders")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        slow = f'[catalogs.slow]\ntype = "rest"\nproperties = {{ uri = "{uri}" }}\n'
        service = service_of(tmp_path / "home", slow + catalog.settings, sqlite_url)
        rounds = Thread(target=service.catalogs.run_once, daemon=True)
        rounds.start()
        wait_for(lambda: "sales.orders" in tables(service), "the other catalog to be synced")
        assert service.catalogs.is_syncing("slow")
        wait_for(lambda: "slow" in service.catalogs.last, "the time limit of the hanging one")
    assert "the catalog slow does not answer" in service.catalogs.last["slow"].problem
    rounds.join()
    service.stop()


def test_secrets_of_a_catalog_are_not_shown(tmp_path: Path, sqlite_url: str) -> None:
    properties = '{ uri = "jdbc:postgresql://ann:hush@127.0.0.1:9/none", "jdbc.password" = "hush" }'
    toml = f'[catalogs.lake]\ntype = "jdbc"\nproperties = {properties}\n'
    service = service_of(tmp_path / "home", toml, sqlite_url)

    report = service.catalogs.sync_now("lake")

    reported = f"{report} {[stored.event for stored in service.store.events.list(limit=10).items]}"
    assert report.problem
    assert "hush" not in reported
    service.stop()


def test_the_examples_of_the_documents_are_accepted(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```ini\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    config = tmp_path / "lakehand.toml"
    config.write_text(example)

    served = load({"home": tmp_path}, config).served_catalogs()

    assert {one.catalog.type for one in served.values()} == {"hadoop", "jdbc", "rest", "hive", "glue", "filesystem"}
    assert served["aws"].owner == "platform"
