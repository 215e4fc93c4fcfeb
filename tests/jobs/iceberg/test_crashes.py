# SPDX-License-Identifier: Apache-2.0
"""Drivers that die: whenever it is, there is one rewrite, the rows are right, and the metadata shows what was done."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.conftest import Damaged
from tests.jobs.iceberg.service import admitted, execute, harness
from tests.kit.interruptions import Killed, die

pytestmark = pytest.mark.spark


def test_a_driver_that_dies_before_the_commit_has_done_nothing(
    spark: SparkSession, warehouse: Warehouse, damaged: Damaged
) -> None:
    table = damaged(3)
    service, before = harness(spark, table), warehouse.checksum(table)
    operation = admitted(service, "rewrite-data")

    with pytest.raises(Killed):
        execute(service, operation, rewriting=die)

    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    again = service.admitted(operation)
    service.settled(again, execute(service, again))
    assert warehouse.checksum(table) == before
    assert iceberg.operations(table).count("replace") == 1


@pytest.mark.parametrize("action", ["rewrite-data", "rewrite-manifests"])
def test_a_driver_that_dies_after_the_commit_has_done_it_and_nobody_does_it_again(
    action: str, spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    service = harness(spark, history, {"iceberg.rewrite-manifests.min-manifests": "2"})
    before, operation = warehouse.checksum(history), admitted(service, action)

    with pytest.raises(Killed):
        execute(service, operation, committed=die)

    verdict = service.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, True)
    again = service.admitted(operation)
    result = execute(service, again)
    assert result["already"] is True
    assert service.verdict(again, result).finding is Finding.DONE
    assert warehouse.checksum(history) == before
    assert iceberg.operations(history).count("replace") == 1


def test_an_expiry_that_dies_after_its_commit_leaves_orphans_that_are_found_later(
    spark: SparkSession, warehouse: Warehouse, rewritten: Path
) -> None:
    service, before = harness(spark, rewritten), warehouse.checksum(rewritten)
    operation, there = admitted(service, "expire-snapshots"), iceberg.data_files(rewritten)
    snapshots = len(iceberg.snapshot_ids(rewritten))

    with pytest.raises(Killed):
        execute(service, operation, finding=die)

    verdict = service.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["expired"]) == (Finding.DONE, snapshots - 1)
    assert iceberg.data_files(rewritten) == there
    service.history.clear()
    removed = service.finish(service.asked("remove-orphans", confirm=True))
    assert int(str(removed.result["deleted_files"])) >= len(there) - 2
    assert len(iceberg.data_files(rewritten)) == 2
    assert warehouse.checksum(rewritten) == before


def test_a_removal_of_orphans_that_dies_is_done_again(spark: SparkSession, warehouse: Warehouse, history: Path) -> None:
    junk = history / "data" / "junk.parquet"
    junk.write_bytes(b"junk")
    iceberg.age_file(junk, 10)
    service = harness(spark, history)
    operation = admitted(service, "remove-orphans")

    with pytest.raises(Killed):
        execute(service, operation, deleted=die)

    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    again = service.admitted(operation)
    assert service.settled(again, execute(service, again)).result["deleted_files"] == 0
