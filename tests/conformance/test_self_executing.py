# SPDX-License-Identifier: Apache-2.0
"""A registered table whose writer compacts, clusters and cleans by itself: Lakehand follows, and disturbs nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from tests import hudi_tables as hudi
from tests.conformance.served import EAGER, ENDED, EVERYTHING, SOON, settle
from tests.conformance.timelines import done, plans, wait_each_done_once
from tests.conformance.writers import HERE, ROWS, writer
from tests.e2e.conftest import Start
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
COMMITS = 9
INLINE = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
ASYNC = {
    "hoodie.datasource.compaction.async.enable": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.async.enabled": "true",
    "hoodie.clustering.async.max.commits": "3",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async.enabled": "true",
    "hoodie.clean.commits.retained": "1",
}
WIRE = {"compaction": "compact", "clustering": "cluster", "clean": "clean"}


def reporting(service: RunningService) -> dict[str, str]:
    url = service.url + "/v1/hoodie/service/callback"
    return {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.http.url": url}


def announce(service: RunningService, path: Path, action: str, instant: str) -> None:
    """As Hudi's client does, also for plans that its writer runs itself."""
    asked = {"action": "REQUEST", "basepath": str(path), "table_name": path.name, "db_name": "", "instant": instant}
    answer = httpx.get(f"{service.url}/v1/hoodie/service/{WIRE[action]}", params=asked, timeout=30)
    assert answer.status_code == 200


def explained(service: RunningService, table: int) -> dict[str, dict[str, Any]]:
    return {one["action"]: one for one in service.get(f"/api/v1/tables/{table}/explain")["actions"]}


def assert_followed(service: RunningService, path: Path, table: int) -> None:
    """Each plan was completed once, and what Lakehand had heard of is DROPPED with the file that completed it."""
    settle(service, path)
    assert set(done(path)) == set(EVERYTHING)
    wait_each_done_once(path)
    for action in EVERYTHING:
        instant = max(one for one, of in plans(path).items() if of == action)
        announce(service, path, action, instant)
        dropped = service.wait_status(path, "dropped", action=action)
        assert dropped["instant"] == instant
        [file] = hudi.completed(path, instant)
        assert file in dropped["reason"], "it names what completed the plan"
        assert explained(service, table)[action]["now"]
    statuses = Counter(one["status"] for one in service.operations(location=str(path)))
    assert set(statuses) <= set(ENDED)
    wait_each_done_once(path)


@pytest.mark.parametrize("version", ["0.15.0", "1.1.1", HERE])
def test_a_writer_that_does_it_all_inline_is_followed(
    version: str, spark: SparkSession, lake: Path, start_service: Start
) -> None:
    path, service = lake / "trips", start_service()
    with writer(version, spark, path, {**INLINE, **reporting(service)}) as live:
        live.write(1)
        table = service.add_table(path, *EVERYTHING, properties=EAGER, **SOON)
        for number in range(2, COMMITS):
            live.write(number)
        assert live.read(spark) == live.expected(COMMITS - 1)
        assert_followed(service, path, table)
        live.write(COMMITS)
        assert live.read(spark) == live.expected(COMMITS)


@contextmanager
def stream(spark: SparkSession, source: Path, path: Path, options: dict[str, str]) -> Iterator[Any]:
    """A structured stream from a folder of files into the table."""
    source.mkdir()
    read = spark.readStream.schema(hudi.SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(source))
    settings = hudi.write_options(path, hudi.MERGE_ON_READ, options)
    written = read.writeStream.format("hudi").options(**settings).outputMode("append")
    query = written.option("checkpointLocation", str(source.parent / "checkpoint")).start(str(path))
    try:
        yield query
    finally:
        query.stop()


def test_a_stream_that_does_it_all_asynchronously_is_followed(
    spark: SparkSession, lake: Path, tmp_path: Path, start_service: Start
) -> None:
    path, service = lake / "trips", start_service()
    with stream(spark, tmp_path / "source", path, {**ASYNC, **reporting(service)}) as query:
        table = 0
        for number in range(1, COMMITS + 1):
            hudi.frame(spark, number, ROWS).write.mode("append").parquet(str(tmp_path / "source"))
            query.processAllAvailable()
            table = table or service.add_table(path, *EVERYTHING, properties=EAGER, **SOON)
        wait_for(lambda: not hudi.pending(path), "the stream to do what it planned")
        assert query.exception() is None
        assert hudi.rows(spark, path) == hudi.expected(COMMITS, ROWS)
        assert_followed(service, path, table)
        assert query.isActive
