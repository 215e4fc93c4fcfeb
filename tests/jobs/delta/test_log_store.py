# SPDX-License-Identifier: Apache-2.0
"""Jobs of Delta on a table in a bucket of an S3 server (moto) that is safe by its log store alone.

The jar of that class is not among ours. With a stand-in for it: ``tests/e2e/test_log_store.py`` and ``test_races.py``.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.jobs.classes import ClassMissing
from lakehand.spi import Format, Remedy, TableSpec
from lakehand.testing.harness import PluginHarness
from tests import small_tables
from tests.s3_server import KEY, REGION, Server, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
BUCKET = "delta-log-stores"
LOG_STORE = "io.delta.storage.S3DynamoDBLogStore"
SETTING = "spark.delta.logStore.s3a.impl"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as one:
        one.make_bucket(BUCKET)
        yield one


@pytest.fixture
def session(spark: SparkSession, server: Server) -> Iterator[SparkSession]:
    """As if the driver had been started with the log store."""
    server.introduce(spark)
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set(SETTING, LOG_STORE)
    yield spark
    conf.remove(SETTING)


def harness(session: SparkSession, server: Server, folder: Path) -> PluginHarness:
    """Of a new table, named as the test's folder."""
    server.put_folder(small_tables.delta(folder / "orders", commits=6), BUCKET, folder.name)
    said = {"endpoint": server.endpoint, "region": REGION, "access-key-id": KEY, "secret-access-key": KEY}
    reader, factory = DeltaFormat(), DeltaProcessFactory()
    factory.open({"delta.log-store": LOG_STORE})
    reader.open({f"s3.{key}": value for key, value in said.items()})
    properties = {"delta.optimize.min-files": "2"}
    spec = TableSpec(location=f"s3a://{BUCKET}/{folder.name}", format=Format("delta"), properties=properties)
    return PluginHarness(factory=factory, format=reader, spec=spec, session=session)


def test_nothing_is_committed_where_the_class_of_the_log_store_is_missing(
    session: SparkSession, server: Server, tmp_path: Path
) -> None:
    service = harness(session, server, tmp_path)
    before, operation = server.keys(BUCKET), service.admitted(service.asked("optimize"))

    with pytest.raises(ClassMissing, match=f"{SETTING} needs the class {LOG_STORE}") as caught:
        service.execute(operation)

    failure = service.failure(operation, caught.value)
    assert (failure.reason, failure.remedy) == ("class-missing", Remedy.FATAL)
    assert "Name the jar that has it in spark.jars" in failure.message
    assert server.keys(BUCKET) == before
