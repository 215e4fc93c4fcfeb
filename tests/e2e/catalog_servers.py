# SPDX-License-Identifier: Apache-2.0
"""Iceberg catalogs on real servers, each with a table: Nessie with its files in S3, JDBC on PostgreSQL and MariaDB."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from sqlalchemy import URL, make_url

from lakehand.app.settings import Settings, load
from lakehand.engines.spark.command import catalog_properties
from tests.iceberg_tables import Warehouse
from tests.nessie_server import BUCKET

TABLE = Path("orders")
# What a person writes for a REST catalog that hands out everything else.
NESSIE = """
warehouses = ["s3://{bucket}"]
[catalogs.central]
type = "rest"
properties = {{ uri = "{uri}", warehouse = "lake" }}
actions = ["rewrite-data", "expire-snapshots"]
"""
JDBC = """
[catalogs.{name}]
type = "jdbc"
properties = {{ uri = "{uri}", "jdbc.user" = "{user}", "jdbc.password" = "{password}", warehouse = "{warehouse}" }}
actions = ["rewrite-data"]
"""
HIVE = """
[catalogs.{name}]
format = "{format}"
type = "hive"
properties = {{ uri = "{uri}", warehouse = "{warehouse}" }}
actions = ["{action}"]
"""
PASSWORD = "a-password-that-shows"  # the servers of the tests trust everybody


def nessie_settings(uri: str) -> str:
    return NESSIE.format(bucket=BUCKET, uri=uri)


def jdbc_settings(name: str, url: str, folder: Path) -> str:
    return JDBC.format(
        name=name, uri=jdbc_uri(make_url(url)), user=make_url(url).username, warehouse=folder / name,
        password=PASSWORD if name == "pg" else "",
    )  # fmt: skip


def jdbc_uri(url: URL) -> str:
    kind = "postgresql" if url.get_backend_name() == "postgresql" else "mariadb"
    return f"jdbc:{kind}://{url.host}:{url.port}/{url.database}"


@dataclass(frozen=True)
class Writer:
    """Somebody else's Spark, with the same catalogs."""

    spark: SparkSession
    settings: Settings

    def open(self, name: str) -> Warehouse:
        session = self.spark.newSession()
        for key, value in catalog_properties(list(self.settings.catalog_map().values())).items():
            session.conf.set(key, value)
        session.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")
        return Warehouse(session, f"{name}.shop", Path("/"))

    def make_table(self, name: str) -> Warehouse:
        warehouse = self.open(name)
        warehouse.sql(f"CREATE NAMESPACE {name}.shop")
        warehouse.create(TABLE, partitioned=False)
        append(warehouse, 0)
        return warehouse


def append(warehouse: Warehouse, start: int) -> None:
    for number in range(6):
        warehouse.append(TABLE, start=start + number * 10)


def files(warehouse: Warehouse) -> int:
    return int(warehouse.sql(f"SELECT count(*) FROM {warehouse.catalog}.{TABLE}.files")[0][0])


def settings_in(home: Path, text: str) -> Settings:
    """``lakehand.toml`` in the home of a service."""
    home.mkdir(mode=0o700, exist_ok=True)
    file = home / "lakehand.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load({"home": home}, file)
