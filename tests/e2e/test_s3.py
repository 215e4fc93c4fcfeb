# SPDX-License-Identifier: Apache-2.0
"""Each action of each format in a bucket of an S3 server (moto), through one service and one driver.

What is safe is done, what is not is refused with the reason, and is done once somebody says that nobody else writes.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from tests.e2e.bucket_tables import BUCKET, CATALOG, BucketTables, location_of, names_in_catalog
from tests.e2e.every_action_s3 import NEEDS, REFUSED
from tests.e2e.served import Driver, Served, every_action, properties_of, register
from tests.jars import local_jars
from tests.kit.polling import wait_for
from tests.kit.service import TLS, RunningService
from tests.s3_server import KEY, REGION, WITH_TIMES, Server, s3_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.timeout(1200),
]
SECRET = "a-secret-that-shows"  # moto takes any
# Spark lists folders of a store with as many tasks as it is told, each of which takes longer here than the listing.
SPARK = {"threads": "4", "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2"}


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server(WITH_TIMES) as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def tables(spark: SparkSession, s3: Server, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> BucketTables:
    (tmp_path / "made").mkdir()
    made = BucketTables(spark=spark, s3=s3, folder=tmp_path / "made")
    made.make(tmp_path_factory)
    return made


@pytest.fixture
def service(s3: Server, tables: BucketTables, tmp_path: Path) -> Iterator[RunningService]:
    """With the endpoint and the credentials said once."""
    catalog = {"type": "jdbc", "properties": tables.catalog_settings(), "sync": False}
    one = RunningService(
        tmp_path / "home", tmp_path, bucket=f"s3://{BUCKET}", storage__s3__endpoint=s3.endpoint,
        storage__s3__region=REGION, storage__s3__access_key_id=KEY, storage__s3__secret_access_key=SECRET,
        catalogs=json.dumps({CATALOG: catalog}),
        spark=json.dumps({**SPARK, "spark.jars": str(local_jars(["jdbc-sqlite"])[0])}),
    )  # fmt: skip
    yield one
    one.end()


def test_every_action_runs_once_where_it_is_safe_else_when_nobody_else_writes_on_moto_with_set_back_times(
    tables: BucketTables, service: RunningService, record_property: Callable[[str, object], None]
) -> None:
    assert {(need.format, action) for need in NEEDS for action in need.actions} == set(every_action())
    service.start()
    served = {need: register(service, need, location_of(need), **names_in_catalog(need)) for need in NEEDS}

    driver = Driver(service)
    for need, actions in served.items():
        for one in actions:
            if (one.format, one.action) in REFUSED:
                check_refusal(one)
                say_that_nobody_else_writes(one, properties_of(need))
    for one in (one for actions in served.values() for one in actions):
        wait_for(lambda: driver.is_watched() and one.is_at_rest(), f"{one} to come to rest", 480)  # noqa: B023
        one.look_again()
        record_property(str(one), " | ".join(one.story()))

    assert len(driver.boots) == 1, "one driver served them all"
    record_property("peak RSS of the driver in MB", driver.peak)
    assert tables.facts() == tables.before
    assert tables.lost_files() == []
    assert holders_of_the_secret(service) == ["spark.properties"]
    assert (service.home / "engines" / "spark" / "spark.properties").stat().st_mode & 0o077 == 0


def check_refusal(one: Served) -> None:
    """The reason and the way out are there, and nothing was begun."""
    wait_for(lambda: one.explained()["evaluated_at"], f"{one} to be evaluated")
    reason = str(one.explained()["now"])
    assert re.search(r"is not (done|planned)", reason), f"{one}: {reason}"
    assert f"{one.format}.only-writer=true" in reason, f"{one}: {reason}"
    assert one.service.operations(table=one.table) == []


def say_that_nobody_else_writes(one: Served, properties: dict[str, str]) -> None:
    body = {"properties": {**properties, f"{one.format}.only-writer": "true"}}
    httpx.patch(f"{one.service.url}/api/v1/tables/{one.table}", json=body, timeout=30, verify=TLS).raise_for_status()


def holders_of_the_secret(service: RunningService) -> list[str]:
    files = (one for one in service.home.rglob("*") if one.is_file() and not one.is_symlink() and one.suffix != ".jar")
    return [one.name for one in files if SECRET.encode() in one.read_bytes()]
