# SPDX-License-Identifier: Apache-2.0
"""Paimon tables of a JDBC catalog on MariaDB, in a bucket, and of a Hive metastore: found, and compacted under a lock.

In the bucket (moto) only the lock of the catalog allows it. Paimon has none for MariaDB under its own name.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import make_url

from lakehand.app.settings import Settings
from lakehand.engines.spark.command import catalog_properties
from tests.e2e.catalog_servers import jdbc_uri, settings_in
from tests.e2e.test_catalogs import CatalogService, succeeded, table_of
from tests.hive_metastore import Metastore, hive_metastore
from tests.jars import local_jars
from tests.kit.polling import wait_for
from tests.s3_server import KEY, REGION, Server, s3_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.timeout(900),
]
BUCKET = "lake-of-paimon"  # its own name: Hadoop keeps a file system per bucket, whatever server it was on
WAIT = 400
COMMITS, FILES = 3, 8
SETTINGS = """
warehouses = ["s3://{bucket}"]
[storage.s3]
endpoint = "{endpoint}"
region = "{region}"
access-key-id = "{key}"
secret-access-key = "{key}"

[catalogs.sql]
format = "paimon"
type = "jdbc"
properties = {{ "engine.uri" = "{mysql}?permitMysqlScheme", "reader.uri" = "{jdbc}", "jdbc.user" = "{user}", "jdbc.password" = "", warehouse = "s3a://{bucket}/sql", "lock.enabled" = "true" }}
actions = ["compact"]

[catalogs.metastore]
format = "paimon"
type = "hive"
properties = {{ uri = "{hive}", warehouse = "{folder}", "lock.enabled" = "true" }}
actions = ["compact"]

[spark]
"spark.jars" = "{driver}"

[plugins.process-factories.paimon.properties]
"paimon.compact.min-files" = "5"
"""  # noqa: E501


@pytest.fixture
def s3() -> Iterator[Server]:
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[Metastore]:
    with hive_metastore(tmp_path) as server:
        yield server


class Writer:
    """Somebody else's Spark, with the same catalogs, and so with the same locks."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.session = spark.newSession()
        for key, value in catalog_properties(list(settings.catalog_map().values())).items():
            self.session.conf.set(key, value)

    def make_table(self, catalog: str) -> None:
        self.session.sql(f"CREATE DATABASE IF NOT EXISTS {catalog}.shop")
        self.session.sql(
            f"CREATE TABLE {catalog}.shop.orders (id bigint, v bigint) TBLPROPERTIES ('write-only' = 'true')"
        )
        for number in range(COMMITS):
            rows = self.session.range(number * 100, number * 100 + 100, 1, FILES).selectExpr("id", "7 * id AS v")
            rows.writeTo(f"{catalog}.shop.orders").append()

    def facts(self, catalog: str) -> tuple[Any, ...]:
        found = self.session.table(f"{catalog}.shop.orders").selectExpr("count(1)", "sum(id)", "sum(v)")
        return tuple(found.collect()[0])

    def files(self, catalog: str) -> int:
        return self.session.table(f"{catalog}.shop.`orders$files`").count()


def test_tables_of_both_catalogs_are_found_and_compacted_under_their_locks(
    spark: SparkSession, s3: Server, metastore: Metastore, mariadb_url: str, tmp_path: Path
) -> None:
    s3.introduce(spark)
    url = make_url(mariadb_url)
    text = SETTINGS.format(
        bucket=BUCKET, endpoint=s3.endpoint, region=REGION, key=KEY, user=url.username, jdbc=jdbc_uri(url),
        mysql=jdbc_uri(url).replace("mariadb", "mysql"), driver=local_jars(["jdbc-mariadb"])[0],
        hive=metastore.uri, folder=metastore.warehouse,
    )  # fmt: skip
    service = CatalogService(tmp_path / "home", tmp_path)
    writer = Writer(spark, settings_in(service.home, text))
    for name in ("sql", "metastore"):
        writer.make_table(name)
    before = {name: writer.facts(name) for name in ("sql", "metastore")}
    assert {writer.files(name) for name in before} == {COMMITS * FILES}
    try:
        service.start()
        for name, facts in before.items():
            table = wait_for(lambda: table_of(service, name), f"the table of {name} to be found", WAIT)  # noqa: B023
            wait_for(lambda: succeeded(service, table, "compact"), f"compact in {name}", WAIT)  # noqa: B023
            assert (writer.files(name) < COMMITS * FILES, writer.facts(name)) == (True, facts), name
    finally:
        service.end()
