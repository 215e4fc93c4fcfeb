# SPDX-License-Identifier: Apache-2.0
"""Indexes of real tables: built because they were asked for, kept by writers that have them on, dropped by others."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Scheduling, Skip
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import MergeOnRead
from tests.jobs.hudi.service import LOCKING, SERVICE, Service
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ON = {"hoodie.metadata.global.record.level.index.enable": "true", "hoodie.metadata.record.index.enable": "true"}
ASKED = {**SERVICE, "hudi.indexing.indexes": "record_index", "hudi.indexing.writers-maintain": "true"}
PARTITIONS = "hoodie.table.metadata.partitions"


def table_of(spark: SparkSession, version: int, merge_on_read: MergeOnRead) -> Service:
    name = "on" if version == 9 else f"version {version}"
    path = merge_on_read(name, hudi.VERSIONS[version])
    return Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=ASKED)


@pytest.fixture(params=[*long_values(6, 8), 9])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def table(spark: SparkSession, version: int, merge_on_read: MergeOnRead) -> Service:
    return table_of(spark, version, merge_on_read)


@pytest.fixture
def one(spark: SparkSession, merge_on_read: MergeOnRead) -> Service:
    return table_of(spark, 9, merge_on_read)


def indexes(table: Service) -> set[str]:
    return set(hudi.properties(table.path)[PARTITIONS].split(","))


def unfinished(table: Service) -> str:
    return hudi.properties(table.path).get(f"{PARTITIONS}.inflight", "")


def leave_plan(table: Service) -> str:
    """As somebody's indexer schedules it."""
    with hudi.write_client(table.spark, table.path, {**LOCKING, **ON, "hoodie.metadata.index.async": "true"}) as client:
        jvm: Any = table.spark.sparkContext._jvm
        types = jvm.java.util.ArrayList()
        types.add(jvm.org.apache.hudi.metadata.MetadataPartitionType.RECORD_INDEX)
        return str(client.scheduleIndexing(types, jvm.java.util.ArrayList()).get())


def test_an_index_that_is_asked_for_is_built_and_stays_with_writers_that_have_it_on(
    table: Service, version: int
) -> None:
    before, options = hudi.properties(table.path), {**LOCKING, **hudi.VERSIONS[version]}
    process = table.admitted("indexing")

    result = table.execute(process)

    verdict = table.verdict(process, result)
    assert verdict.finding is Finding.DONE, verdict
    assert verdict.numbers["built"] == ["record_index"]
    after = hudi.properties(table.path)
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} - {
        "hoodie.table.index.defs.path"
    } == {PARTITIONS}
    assert indexes(table) - set(before[PARTITIONS].split(",")) == {"record_index"}
    assert isinstance(table.wants("indexing"), Skip)
    hudi.upsert(table.spark, table.path, number=3, rows=50, options={**options, **ON})
    assert "record_index" in indexes(table)
    assert hudi.rows(table.spark, table.path) == hudi.expected(3, 50)
    hudi.upsert(table.spark, table.path, number=4, rows=60, options=options)
    assert "record_index" not in indexes(table), "why the writers must be said to keep it"
    assert hudi.rows(table.spark, table.path) == hudi.expected(4, 60)


@pytest.mark.long
def test_a_plan_that_someone_left_is_executed_beside_the_writer(one: Service) -> None:
    planned = leave_plan(one)
    hudi.upsert(one.spark, one.path, number=3, options=LOCKING)
    service = Service(spark=one.spark, path=one.path, properties=SERVICE)
    process = service.admitted("indexing")
    assert process.instant == planned

    result = service.execute(process)

    assert service.verdict(process, result).finding is Finding.DONE
    assert "record_index" in indexes(one)
    assert hudi.rows(one.spark, one.path) == hudi.expected(3)
    again = service.admitted_again(process)  # the result of the first attempt was lost
    assert service.verdict(again, service.execute(again)).finding is Finding.DONE
    assert len(hudi.completed(one.path, planned)) == 1


def test_a_plan_for_an_index_that_a_writer_has_built_meanwhile_is_removed(one: Service) -> None:
    planned = leave_plan(one)
    process = one.admitted("indexing")
    hudi.upsert(one.spark, one.path, number=3, options={**LOCKING, **ON})
    assert "record_index" in indexes(one)

    result = one.execute(process)

    verdict = one.verdict(process, result)
    assert (verdict.finding, list(result["lost"])) == (Finding.GONE, [planned])
    assert hudi.pending(one.path) == []
    assert "record_index" in indexes(one)
    assert isinstance(one.wants("indexing"), Skip)


@pytest.mark.long
def test_an_index_that_was_left_half_built_is_built_anew(one: Service) -> None:
    planned = leave_plan(one)
    process = one.admitted("indexing")
    # Fails when all is written, before the commit: the build waits for a write that does not end. It waits only for one
    # with a heartbeat.
    in_time = {"hoodie.metadata.index.check.timeout.seconds": "1"}
    with (
        hudi.write_under_way(one.path),
        hudi.write_client(one.spark, one.path, {**LOCKING, **ON, **in_time}) as client,
        pytest.raises(Exception, match="Failed to index partition"),
    ):
        client.index(planned)
    assert hudi.pending(one.path) == [(planned, "indexing")]
    assert unfinished(one) == "record_index"
    assert one.verdict(process, {}).finding is Finding.NOT_DONE
    hudi.upsert(one.spark, one.path, number=3, options={**LOCKING, **ON, "hoodie.metadata.index.async": "true"})

    again = one.admitted_again(process)
    result = one.execute(again)

    verdict = one.verdict(again, result)
    assert verdict.finding is Finding.DONE, verdict
    assert "was left in the middle" in verdict.reason
    assert (hudi.pending(one.path), unfinished(one)) == ([], "")
    assert "record_index" in indexes(one)
    assert hudi.rows(one.spark, one.path) == hudi.expected(3)
    assert isinstance(one.wants("indexing"), Skip)
