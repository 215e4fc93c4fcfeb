# SPDX-License-Identifier: Apache-2.0
"""Jobs of Paimon on tables in a bucket of an S3 server (moto): opened by path, and nothing is left beside them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.engines.spark.command import storage_properties
from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Skip, TableSpec
from lakehand.testing.harness import PluginHarness
from tests.paimon_tables import Lake
from tests.s3_server import KEY, REGION, Server, s3_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
BUCKET = "paimon-lake"
TABLE = f"s3://{BUCKET}/shop/orders"
ONLY_WRITER = {"paimon.only-writer": "true"}


@pytest.fixture(scope="module")
def said() -> Iterator[tuple[Server, dict[str, str]]]:
    """The server, and what the settings say of it."""
    with s3_server() as server:
        server.make_bucket(BUCKET)
        options = {"endpoint": server.endpoint, "region": REGION, "access-key-id": KEY, "secret-access-key": KEY}
        yield server, {f"s3.{key}": value for key, value in options.items()}


@pytest.fixture
def session(spark: SparkSession, said: tuple[Server, dict[str, str]]) -> SparkSession:
    """As the driver is told: Hadoop alone knows the store, Paimon has no options of its own."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in storage_properties(said[1], ["s3"]).items():
        if key.startswith("spark.hadoop."):
            conf.set(key.removeprefix("spark.hadoop."), value)
    return spark


def upload_table(spark: SparkSession, server: Server, folder: Path) -> None:
    lake = Lake(spark, folder)
    lake.create("orders")
    for number in range(12):
        lake.append("orders", number * 20, 20, files=2)
    server.put_folder(lake.path("orders"), BUCKET, "shop/orders")


def rows(spark: SparkSession) -> tuple[int, int]:
    [row] = spark.newSession().read.format("paimon").load(TABLE).selectExpr("count(1)", "sum(v)").collect()
    return int(row[0]), int(row[1])


def harness(session: SparkSession, said: dict[str, str], properties: dict[str, str]) -> PluginHarness:
    reader = PaimonFormat()
    reader.open(said)
    spec = TableSpec(location=TABLE, format=PAIMON, properties=properties)
    return PluginHarness(factory=PaimonProcessFactory(), format=reader, spec=spec, session=session)


def test_a_table_in_a_bucket_is_compacted_where_nobody_else_writes_and_the_rest_of_the_bucket_stays_as_it_is(
    session: SparkSession, said: tuple[Server, dict[str, str]], tmp_path: Path
) -> None:
    server, settings = said
    upload_table(session, server, tmp_path / "made")
    before = rows(session)

    refused = harness(session, settings, {}).wants("compact")
    assert isinstance(refused, Skip)
    assert "it is not done: on s3:// one of two Paimon snapshots is lost, without an error" in refused.reason
    service = harness(session, settings, ONLY_WRITER)
    ended = service.serve("compact")
    listed = service.finish(service.asked("remove-orphans", dry_run=True))

    assert (ended.result["files_before"], ended.result["files_after"]) == (24, 1)
    assert listed.result["orphans"] == 0
    assert rows(session) == before
    assert [key for key in server.keys(BUCKET) if not key.startswith("shop/orders/")] == []
