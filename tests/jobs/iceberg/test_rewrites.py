# SPDX-License-Identifier: Apache-2.0
"""Rewrites of real Iceberg tables: decided with numbers, done once, all rows right, and not wanted again."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from lakehand.formats.iceberg.rewrites import history_of
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness, utc_now
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.conftest import Damaged
from tests.jobs.iceberg.service import harness, reason, skipped
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark


def served(service: PluginHarness, warehouse: Warehouse, table: Path, action: str) -> Operation:
    """Done to the end, with all rows as they were, and shown by the metadata alone."""
    before = warehouse.checksum(table)
    done = service.serve(action)
    assert warehouse.checksum(table) == before
    assert service.verdict(done, {}).finding == "done"
    return done


def counts(done: Operation, key: str) -> tuple[Any, Any]:
    before, after = done.result["before"], done.result["after"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    return before[key], after[key]


def rewrites(service: PluginHarness) -> int:
    """How many commits of ours row-level writers rest from."""
    snapshot: Any = service.runtime().snapshot()
    return len(list(history_of(snapshot, utc_now()).rewrites))


@pytest.mark.parametrize("version", [2, *long_values(3)])
def test_small_files_and_deleted_rows_become_a_few_files(
    version: int, spark: SparkSession, warehouse: Warehouse, damaged: Damaged
) -> None:
    table = damaged(version)
    service = harness(spark, table)
    assert reason(service.wants("rewrite-data")).startswith("100 of 100 files are under 384 MB; ")

    done = served(service, warehouse, table, "rewrite-data")

    assert done.reason.startswith("100 data files became 2, 85 delete files became 0 in snapshot ")
    assert (counts(done, "files"), counts(done, "delete_files")) == ((100, 2), (85, 0))
    assert iceberg.metadata(table)["format-version"] == version
    assert rewrites(service) == 1
    assert "2 of 2 files are under 384 MB; at most 1 in one partition, 5 are" in skipped(service.wants("rewrite-data"))


ORDERS = {
    "sort": {"iceberg.rewrite-data.strategy": "sort", "iceberg.rewrite-data.sort-order": "v desc, id"},
    "z-order": {"iceberg.rewrite-data.strategy": "z-order", "iceberg.rewrite-data.z-order-columns": "id, v"},
}


@pytest.mark.parametrize("strategy", ["sort", *long_values("z-order")])
def test_a_rewrite_sorts_if_the_settings_say_so(
    strategy: str, spark: SparkSession, warehouse: Warehouse, damaged: Damaged
) -> None:
    table = damaged(2)
    service, old = harness(spark, table, ORDERS[strategy]), iceberg.data_files(table)

    served(service, warehouse, table, "rewrite-data")

    for file in iceberg.data_files(table) - old:
        values = parquet.read_table(file, partitioning=None)["v"].to_pylist()
        assert strategy != "sort" or values == sorted(values, reverse=True)
    assert "at most 1 in one partition" in skipped(service.wants("rewrite-data"))


def test_position_delete_files_are_merged(spark: SparkSession, warehouse: Warehouse) -> None:
    table = warehouse.create(warehouse.folder / "deletes", partitioned=False, write_delete_granularity="partition")
    warehouse.append(table, files=4, rows=200)
    for number in range(6):
        warehouse.delete(table, f"id % 20 = {number}")
    service = harness(spark, table)
    assert reason(service.wants("rewrite-position-deletes")).startswith("6 position delete files for 4 data files, 0")

    done = served(service, warehouse, table, "rewrite-position-deletes")

    assert done.reason.startswith("6 delete files became 1 in snapshot ")
    assert "at most 1 in one partition" in skipped(service.wants("rewrite-position-deletes"))


def test_delete_files_that_cannot_become_fewer_are_left_alone(spark: SparkSession, damaged: Damaged) -> None:
    scoped, vectors = (harness(spark, damaged(version)) for version in (2, 3))

    assert "85 position delete files for 100 data files" in skipped(scoped.wants("rewrite-position-deletes"))
    assert "its 85 deletion vectors need no merging" in skipped(vectors.wants("rewrite-position-deletes"))


def test_manifests_are_merged(spark: SparkSession, warehouse: Warehouse, history: Path) -> None:
    service = harness(spark, history, {"iceberg.rewrite-manifests.min-manifests": "10"})
    assert reason(service.wants("rewrite-manifests")).startswith("12 manifests of ")

    done = served(service, warehouse, history, "rewrite-manifests")

    assert done.reason.startswith("12 manifests became 1 in snapshot ")
    assert "1 manifests of " in skipped(service.wants("rewrite-manifests"))
    assert rewrites(service) == 0, "which puts off no rewrite of data"


def test_what_a_person_asks_for_runs_without_need_and_a_run_without_effect_is_not_repeated(
    spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    service = harness(spark, history, {"iceberg.rewrite-data.min-input-files": "12"})
    idle = service.finish(service.asked("rewrite-data", options={"min-input-files": 99}))
    assert (idle.result["changed"], idle.reason) == (False, "nothing to do: Iceberg found nothing for rewrite-data")
    assert "found nothing to change; next in" in skipped(service.wants("rewrite-data"))

    asked = service.finish(service.asked("rewrite-data", options={"rewrite-all": True}))
    assert asked.reason.startswith("24 data files became 2")
    service.now = lambda: utc_now() + timedelta(hours=7)
    assert "2 of 2 files are under" in skipped(service.wants("rewrite-data"))
