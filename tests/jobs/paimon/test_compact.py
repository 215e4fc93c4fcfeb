# SPDX-License-Identifier: Apache-2.0
"""Compactions of real tables: one commit with our tag, all rows as they were, and nothing to do afterwards."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.paimon import PaimonFormat
from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.spi import Catalog, Skip, TableProcess, TableReference
from tests import paimon_tables as paimon
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import harness
from tests.kit.tiers import long_values
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


def test_small_files_of_an_append_table_become_one_in_one_commit(spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("small_files")
    path, before = lake.path("small_files"), lake.facts("small_files")
    service = harness(spark, path)

    wanted = service.wants("compact")
    assert isinstance(wanted, TableProcess)
    assert wanted.reason.startswith("104 of 104 files are under 179 MB, 1 of 1 partitions have 5 or more of them")
    ended = service.finish(service.stored(wanted))

    assert ended.reason == "snapshot 3: 104 files became 1; 104 before, 1 now"
    assert [one["commitKind"] for one in paimon.snapshots(path)] == ["APPEND", "APPEND", "COMPACT"]
    assert paimon.snapshots(path)[-1]["commitUser"].startswith(f"lakehand-{ended.tag}_")
    assert lake.facts("small_files") == before
    again = service.wants("compact")
    assert isinstance(again, Skip)
    assert again.reason == "1 of 1 files are under 179 MB, 0 of 1 partitions have 5 or more of them"


@pytest.mark.parametrize(("strategy", "left"), [("minor", 5 * 4), pytest.param("full", 5 * 1, marks=pytest.mark.long)])
def test_partitions_of_all_sizes_are_packed(strategy: str, left: int, spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("partitions")
    before = lake.facts("partitions")
    service = harness(spark, lake.path("partitions"), compact__strategy=strategy)

    ended = service.serve("compact")

    assert ended.result["files_before"] == 200
    assert ended.result["files_after"] <= left  # type: ignore[operator]
    assert lake.facts("partitions") == before
    assert isinstance(service.wants("compact"), Skip)


@pytest.mark.parametrize("strategy", [*long_values("auto"), "full", "minor"])
def test_sorted_runs_of_a_table_with_a_key_are_merged(strategy: str, spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("keyed")
    before, count = lake.facts("keyed"), len(paimon.snapshots(lake.path("keyed")))
    service = harness(spark, lake.path("keyed"), compact__strategy=strategy)

    ended = service.serve("compact")

    assert ended.result["files_before"] == 28
    assert ended.result["files_after"] == 4
    assert lake.facts("keyed") == before
    assert len(paimon.snapshots(lake.path("keyed"))) == count + 1, "a compaction expires nothing"
    again = service.wants("compact")
    assert isinstance(again, Skip)
    assert again.reason.startswith("0 of 4 buckets have")
    assert "(most: 1)" in again.reason


@pytest.mark.parametrize("order", ["zorder", *long_values("hilbert", "order")])
def test_an_append_table_is_sorted_once_for_each_order(order: str, spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("partitions")
    before = lake.facts("partitions")
    requests = {"compact__strategy": "sort", "compact__order_columns": "v,id", "compact__order_strategy": order}
    service = harness(spark, lake.path("partitions"), **requests)

    ended = service.serve("compact")

    assert (ended.result["files_before"], ended.result["files_after"]) == (200, 5)
    assert lake.facts("partitions") == before
    again = service.wants("compact")
    assert isinstance(again, Skip)
    assert again.reason.startswith(f"0 of 5 files (0% of the bytes) are not sorted by {order}(v,id)")
    other = harness(spark, lake.path("partitions"), **{**requests, "compact__order_columns": "id"})
    assert isinstance(other.wants("compact"), TableProcess), "another order is another request"


def test_a_table_of_a_catalog_is_compacted_through_it(spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("small_files")
    before = lake.facts("small_files")
    catalog = Catalog(
        name="lake", format=PaimonFormat.format, type="filesystem", properties={"warehouse": str(lake.warehouse)}
    )
    [reference] = PaimonFormat().tables(catalog)
    assert reference == TableReference(
        location=str(lake.path("small_files")), catalog=catalog, db_name="shop", table_name="small_files"
    )
    service = harness(spark, lake.path("small_files"))
    service.reference = reference
    admitted = service.admitted(service.asked("compact"))

    job = Job(lake.session, dict(admitted.process.parameters))  # as the driver's sessions, it knows the catalog
    ended = service.settled(admitted, job_called(admitted.process.job)(job))

    assert ended.result["files_after"] == 1
    assert lake.facts("small_files") == before


def test_a_table_is_found_by_its_path_whatever_it_is_called_and_nothing_appears_beside_it(
    spark: SparkSession, lake_with: Make, tmp_path: Path
) -> None:
    path = tmp_path / "it's `a` lake" / "of tables"
    path.parent.mkdir()
    lake_with("small_files").path("small_files").rename(path)
    before, service = paimon.facts(spark, path), harness(spark, path, expire_snapshots__at_least="1")

    service.serve("compact")
    plant = path / "bucket-0" / "data-orphan.parquet"
    plant.write_bytes(b"orphan")
    paimon.age(path, 5)
    service.serve("remove-orphans")
    service.finish(service.asked("expire-snapshots"))

    assert not plant.exists()
    assert paimon.facts(spark, path) == before
    assert [child.name for child in path.parent.iterdir()] == ["of tables"]


def test_a_compaction_expires_and_tags_nothing_whatever_the_table_says(spark: SparkSession, lake_with: Make) -> None:
    """Paimon's own call does all of this after its commit."""
    lake = lake_with("keyed")
    path = lake.path("keyed")
    eager = {
        "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms",
        "tag.automatic-creation": "process-time", "tag.creation-period": "hourly", "consumer.expiration-time": "1 ms",
    }  # fmt: skip
    listed = ", ".join(f"'{key}'='{value}'" for key, value in eager.items())
    lake.sql(f"ALTER TABLE {{shop}}.keyed SET TBLPROPERTIES ({listed})")
    consumer = path / "consumer" / "consumer-stream"
    consumer.parent.mkdir()
    consumer.write_text('{"nextSnapshot": 3}')
    count = len(paimon.snapshots(path))

    harness(spark, path, compact__strategy="full").serve("compact")

    assert len(paimon.snapshots(path)) == count + 1
    assert consumer.exists()
    assert not (path / "tag").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{"bucket": "2", "bucket-key": "id"}, {"primary-key": "id", "bucket": "-1"}], ids=["append", "dynamic"]
)
def test_buckets_of_a_fixed_number_without_a_key_and_of_any_number_with_one_are_served(
    options: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    lake.create("t", {**paimon.WRITE_ONLY, **options})
    for number in range(6):
        lake.append("t", number * 20, 40 if "primary-key" in options else 20)
    before, service = lake.facts("t"), harness(spark, lake.path("t"))

    ended = service.serve("compact")

    assert ended.result["files_after"] < ended.result["files_before"] / 5  # type: ignore[operator]
    assert lake.facts("t") == before
    assert isinstance(service.wants("compact"), Skip)
