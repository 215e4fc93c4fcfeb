# SPDX-License-Identifier: Apache-2.0
"""Tables of catalogs: listed with their locations, and read at the location that the catalog has now."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakehand.formats.iceberg import IcebergFormat
from lakehand.formats.iceberg.catalogs import DEEPEST, namespaces
from lakehand.spi import Catalog, Format, Invalid, TableReference
from lakehand.storage import database_address
from tests.formats.iceberg.made import WrittenTable, rows
from tests.formats.iceberg.rest_catalog import serving
from tests.s3_server import KEY, REGION, s3_server

ICEBERG = Format("iceberg")


@pytest.fixture
def library(tmp_path: Path) -> Any:
    """A catalog with two tables, as pyiceberg writes it."""
    return filled(f"sqlite:///{tmp_path / 'catalog.db'}", tmp_path)


def filled(uri: str, folder: Path) -> Any:
    catalog = SqlCatalog("lake", uri=uri, warehouse=str(folder))
    catalog.create_namespace("sales")
    for name in ("orders", "visits"):
        catalog.create_table(f"sales.{name}", schema=rows(0).schema, location=str(folder / name)).append(rows(0))
    return catalog


def jdbc(uri: str, **properties: str) -> Catalog:
    return Catalog(name="lake", format=ICEBERG, type="jdbc", properties={"uri": uri, **properties})


def check(catalog: Catalog, library: Any, folder: Path) -> IcebergFormat:
    """Everything that a reader does with a catalog, on the two tables."""
    reader = IcebergFormat()
    found = list(reader.tables(catalog))
    assert [(p.db_name, p.table_name, p.location) for p in found] == [
        ("sales", "orders", str(folder / "orders")), ("sales", "visits", str(folder / "visits")),
    ]  # fmt: skip
    before = reader.probe(found[0])
    assert reader.inspect(found[0]).numbers["files"] == 1
    library.load_table("sales.orders").append(rows(5))
    assert reader.probe(found[0]) == reader.inspect(found[0]).token != before
    assert reader.inspect(found[0]).why_read_only == ""
    with pytest.raises(Invalid, match=r"sales\.nothing .*lake"):
        reader.probe(TableReference(location="/x", catalog=catalog, db_name="sales", table_name="nothing"))
    return reader


def test_a_jdbc_catalog_is_read_with_the_address_that_spark_has(library: Any, tmp_path: Path) -> None:
    check(jdbc(f"jdbc:sqlite:{tmp_path / 'catalog.db'}"), library, tmp_path)


def test_a_jdbc_catalog_on_postgresql_is_read_with_the_address_that_spark_has(
    postgresql_url: str, tmp_path: Path
) -> None:
    library = filled(postgresql_url, tmp_path)
    url = library.engine.url
    java_url = f"jdbc:postgresql://{url.host or ''}{f':{url.port}' if url.port else ''}/{url.database}"
    hidden = {"reader.uri": postgresql_url} if not url.host else {}
    secret = {"jdbc.user": url.username or "", "jdbc.password": url.password or ""}
    known = {key: value for key, value in secret.items() if value}
    reader = check(jdbc(java_url, **known, **hidden), library, tmp_path)
    for engine in (library.engine, reader._catalogs._open["lake"]):
        engine.dispose()


@pytest.fixture
def rest(library: Any) -> Iterator[Catalog]:
    with serving(library) as uri:
        yield Catalog(name="lake", format=ICEBERG, type="rest", properties={"uri": uri})


def test_a_rest_catalog_is_read_here_a_fake_one(rest: Catalog, library: Any, tmp_path: Path) -> None:
    check(rest, library, tmp_path)


def test_properties_of_a_table_choose_neither_class_nor_endpoint_here_in_a_fake_catalog(library: Any) -> None:
    properties = {"py-io-impl": "tests.nowhere.Evil", "s3.endpoint": "http://evil.example"}
    with serving(library, {"s3.region": "eu-1"}, properties) as uri:
        catalog = Catalog(name="lake", format=ICEBERG, type="rest", properties={"uri": uri})
        reader = IcebergFormat()
        found = list(reader.tables(catalog))
        _, storages = reader._catalogs.locate(found[0])

    assert [one.problem for one in found] == ["", ""]
    assert storages._properties["s3.region"] == "eu-1"
    assert "s3.endpoint" not in storages._properties


def test_the_tables_of_a_hadoop_catalog_are_its_folders(tmp_path: Path) -> None:
    for name in ("db/orders", "db/deep/visits"):
        (tmp_path / "lake" / name).parent.mkdir(parents=True, exist_ok=True)
        WrittenTable(folder=tmp_path / "lake" / name)
    (tmp_path / "lake" / "db" / "no table" / "metadata").mkdir(parents=True)
    catalog = Catalog(name="lake", format=ICEBERG, type="hadoop", properties={"warehouse": str(tmp_path / "lake")})

    found = list(IcebergFormat().tables(catalog))

    assert [(p.db_name, p.table_name) for p in found] == [("db.deep", "visits"), ("db", "orders")]
    assert IcebergFormat().inspect(found[0]).numbers["files"] == 1


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"uri": "jdbc:sqlite:/a/b.db"}, "sqlite:////a/b.db"),
        ({"uri": "jdbc:sqlite:file:/a/b.db"}, "sqlite:////a/b.db"),
        ({"uri": "sqlite:////a/b.db"}, "sqlite:////a/b.db"),
        (
            {"uri": "jdbc:postgresql://h:5/d?user=u&password=p&sslmode=require"},
            "postgresql+psycopg://u:p@h:5/d?sslmode=require",
        ),
        (
            {"uri": "jdbc:postgresql://h/d", "jdbc.user": "u", "jdbc.password": "p/?"},
            "postgresql+psycopg://u:p%2F%3F@h/d",
        ),
        ({"uri": "jdbc:mysql://h/d", "jdbc.user": "u"}, "mysql+pymysql://u@h/d"),
        ({"uri": "jdbc:mariadb://h/d"}, "mysql+pymysql://h/d"),
    ],
)
def test_one_address_serves_both_sides(properties: dict[str, str], expected: str) -> None:
    assert database_address(properties).render_as_string(hide_password=False) == expected


def test_catalogs_that_cannot_be_read_raise_an_error_with_their_name(tmp_path: Path) -> None:
    reference = TableReference(
        location="/x", catalog=jdbc(f"jdbc:sqlite:{tmp_path / 'none.db'}"), db_name="a", table_name="b"
    )
    with pytest.raises(OSError, match="JDBC"):
        IcebergFormat().probe(reference)
    with pytest.raises(Invalid, match="jdbc:oracle"):
        list(IcebergFormat().tables(jdbc("jdbc:oracle:thin:@h")))
    with pytest.raises(Invalid, match=r"'magic'.* glue, hadoop, hive, jdbc, rest"):
        list(IcebergFormat().tables(Catalog(name="x", format=ICEBERG, type="magic")))
    with pytest.raises(Invalid, match="warehouse"):
        list(IcebergFormat().tables(Catalog(name="x", format=ICEBERG, type="hadoop")))
    with pytest.raises(OSError, match="refused"):
        list(
            IcebergFormat().tables(
                Catalog(name="x", format=ICEBERG, type="rest", properties={"uri": "http://127.0.0.1:9"})
            )
        )


@pytest.mark.server
def test_a_table_in_a_bucket_is_read_with_what_a_rest_catalog_hands_out_here_a_fake_one(tmp_path: Path) -> None:
    """The settings name neither an endpoint nor credentials."""
    with s3_server() as s3:
        s3.make_bucket("lake")
        files = {
            "s3.endpoint": s3.endpoint, "s3.access-key-id": KEY, "s3.secret-access-key": KEY, "s3.region": REGION,
        }  # fmt: skip
        library = SqlCatalog("lake", uri=f"sqlite:///{tmp_path / 'c.db'}", warehouse="s3://lake/central", **files)
        library.create_namespace("sales")
        library.create_table("sales.orders", schema=rows(0).schema).append(rows(0))
        with serving(library, config=files) as url:
            catalog = Catalog(name="central", format=ICEBERG, type="rest", properties={"uri": url})
            reader = IcebergFormat()
            [reference] = reader.tables(catalog)
            assert reference.location == "s3://lake/central/sales/orders"
            assert reader.inspect(reference).numbers["files"] == 1
        library.engine.dispose()


class BoundedRestCatalog:
    """A stand-in with the name of the real one: its answers to ``parent`` are those of a test."""

    def __init__(self, names: list[tuple[str, ...]], *, knows_parent: bool) -> None:
        self.names, self.knows_parent, self.asked = names, knows_parent, 0

    def list_namespaces(self, above: tuple[str, ...]) -> list[tuple[str, ...]]:
        self.asked += 1
        assert self.asked < 1000
        return [one for one in self.names if one[:-1] == (above if self.knows_parent else ())]


def test_a_catalog_that_ignores_the_parent_is_listed_once() -> None:
    catalog = BoundedRestCatalog([("a",), ("b",), ("c",)], knows_parent=False)

    assert list(namespaces(catalog)) == [("a",), ("b",), ("c",)]
    assert catalog.asked == 4


def test_nested_namespaces_are_listed_down_to_a_depth_and_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = [tuple("abcdefghijkl")[:levels] for levels in range(1, 13)]
    assert list(namespaces(BoundedRestCatalog(deep, knows_parent=True))) == deep[:DEEPEST]

    monkeypatch.setattr("lakehand.formats.iceberg.catalogs.MOST_NAMESPACES", 5)
    with pytest.raises(Invalid, match="more than 5 namespaces"):
        list(namespaces(BoundedRestCatalog(deep, knows_parent=True)))
