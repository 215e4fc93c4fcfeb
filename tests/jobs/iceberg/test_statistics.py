# SPDX-License-Identifier: Apache-2.0
"""Statistics of real tables: a file for one snapshot, set once, whatever dies or writes beside us."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.iceberg.statistics import SnapshotGone
from lakehand.spi import Finding, Remedy
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.conftest import put_back
from tests.jobs.iceberg.service import admitted, execute, harness, opened, reason, skipped
from tests.kit.interruptions import Killed, die
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
TABLE, PARTITIONS = "compute-statistics", "compute-partition-statistics"
LISTS = {TABLE: "statistics", PARTITIONS: "partition-statistics"}
BOTH = pytest.mark.parametrize("action", [TABLE, PARTITIONS])


@pytest.fixture
def table(warehouse: Warehouse, templates: dict[str, Path]) -> Path:
    """40 rows in two partitions and two snapshots."""

    def make(path: Path) -> None:
        warehouse.create(path)
        warehouse.append(path, rows=30)
        warehouse.append(path, rows=10, start=30)

    return put_back(warehouse, templates, "counted [table]", make)


def entries(table: Path, action: str) -> dict[int, dict[str, Any]]:
    return {one["snapshot-id"]: one for one in iceberg.metadata(table).get(LISTS[action]) or []}


def distinct(table: Path, snapshot: int) -> dict[int, int]:
    """By the number of the column."""
    blobs = entries(table, TABLE)[snapshot]["blob-metadata"]
    return {blob["fields"][0]: int(blob["properties"]["ndv"]) for blob in blobs}


@pytest.mark.parametrize("version", [2, *long_values(1, 3)])
def test_statistics_of_each_format_version_are_computed_once(
    version: int, spark: SparkSession, warehouse: Warehouse
) -> None:
    table = warehouse.create(warehouse.folder / f"of version {version} {uuid4().hex}", version=version)
    warehouse.append(table, rows=20)
    if version > 1:
        warehouse.delete(table, "id = 3")
    service, rows, snapshots = harness(spark, table), warehouse.checksum(table), iceberg.snapshot_ids(table)

    for action in (TABLE, PARTITIONS):
        done = service.serve(action)
        assert done.reason.startswith(f"snapshot {snapshots[-1]} has ")
        assert Path(entries(table, action)[snapshots[-1]]["statistics-path"]).exists()
        assert skipped(service.wants(action)).startswith(f"the current snapshot, {snapshots[-1]}, has ")

    assert distinct(table, snapshots[-1]) == {1: rows[0], 2: 2, 3: rows[0], 4: rows[0]}
    assert (warehouse.checksum(table), iceberg.snapshot_ids(table)) == (rows, snapshots)
    warehouse.sql(f"REFRESH TABLE {warehouse.name(table)}")
    assert warehouse.checksum(table) == rows


@pytest.mark.long
def test_columns_are_chosen_and_a_second_file_takes_the_place_of_the_first(
    spark: SparkSession, warehouse: Warehouse, table: Path
) -> None:
    service, current = (
        harness(spark, table, {"iceberg.compute-statistics.columns": "p"}),
        iceberg.snapshot_ids(table)[-1],
    )
    service.serve(TABLE)
    first = entries(table, TABLE)[current]["statistics-path"]
    assert distinct(table, current) == {2: 2}

    done = service.finish(service.asked(TABLE, options={"columns": "id,p"}))

    assert (distinct(table, current), done.result["columns"]) == ({1: 40, 2: 2}, 2)
    second = entries(table, TABLE)[current]["statistics-path"]
    assert second != first
    iceberg.age(table, 10)
    removed = service.finish(service.asked("remove-orphans"))
    assert (removed.result["deleted_files"], Path(first).exists(), Path(second).exists()) == (1, False, True)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("moment", ["computing", "setting"])
def test_a_driver_that_dies_before_the_file_is_set_has_done_nothing(
    action: str, moment: str, spark: SparkSession, warehouse: Warehouse, table: Path
) -> None:
    service, rows = harness(spark, table), warehouse.checksum(table)
    operation = admitted(service, action)

    with pytest.raises(Killed):
        execute(service, operation, None, **{moment: die})

    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    again = service.admitted(operation)
    service.settled(again, execute(service, again))
    assert (len(entries(table, action)), warehouse.checksum(table)) == (1, rows)


@pytest.mark.long
@BOTH
def test_a_driver_that_dies_after_the_file_is_set_has_done_it_and_nobody_does_it_again(
    action: str, spark: SparkSession, table: Path
) -> None:
    service = harness(spark, table)
    operation = admitted(service, action)

    with pytest.raises(Killed):
        execute(service, operation, committed=die)

    there = entries(table, action)
    verdict = service.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, True)
    again = service.admitted(operation)
    result = execute(service, again)
    assert result["already"] is True
    assert service.verdict(again, result).finding is Finding.DONE
    assert entries(table, action) == there


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("moment", ["computing", "setting"])
def test_what_a_writer_commits_meanwhile_stays_and_makes_statistics_older(
    action: str, moment: str, spark: SparkSession, warehouse: Warehouse, table: Path
) -> None:
    service, target = harness(spark, table), iceberg.snapshot_ids(table)[-1]
    operation = admitted(service, action)

    result = execute(service, operation, None, **{moment: lambda: warehouse.append(table, rows=2, start=90)})

    done = service.settled(operation, result)
    assert (done.result["snapshot"], set(entries(table, action))) == (target, {target})
    assert warehouse.checksum(table)[0] == 42
    if action == TABLE:
        assert "are 1 commits old: 2 rows came or went, 4.8% of 42; 10.0% are worth it" in skipped(
            service.wants(action)
        )
    else:
        assert "2 files came or went, 33.3% of 6; operation 1 computed them" in skipped(service.wants(action))
    service.history.clear()
    warehouse.append(table, rows=20, start=100)
    assert reason(service.wants(action)).startswith("the newest ")
    service.serve(action)
    assert len(entries(table, action)) == 2


@pytest.mark.long
def test_a_snapshot_that_is_expired_meanwhile_gets_none_and_the_next_attempt_takes_another(
    spark: SparkSession, warehouse: Warehouse, table: Path
) -> None:
    service, target = harness(spark, table), iceberg.snapshot_ids(table)[-1]
    operation = admitted(service, TABLE)

    def expire() -> None:
        warehouse.append(table, start=90)
        opened(warehouse, table).expireSnapshots().expireSnapshotId(target).commit()

    with pytest.raises(SnapshotGone, match=f"snapshot {target} was expired") as gone:
        execute(service, operation, reading=expire)

    assert service.failure(operation, gone.value).remedy is Remedy.RETRY
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    again = service.admitted(operation)
    service.settled(again, execute(service, again))
    assert list(entries(table, TABLE)) == [iceberg.snapshot_ids(table)[-1]]


@pytest.mark.long
def test_partition_statistics_whose_file_was_lost_are_computed_again(spark: SparkSession, table: Path) -> None:
    """Iceberg itself would say that they are there."""
    service, current = harness(spark, table), iceberg.snapshot_ids(table)[-1]
    service.serve(PARTITIONS)
    Path(entries(table, PARTITIONS)[current]["statistics-path"]).unlink()
    service.history.clear()
    assert reason(service.wants(PARTITIONS)).endswith(f"of snapshot {current}, 0 commits ago, is not there")

    service.serve(PARTITIONS)

    assert Path(entries(table, PARTITIONS)[current]["statistics-path"]).exists()
    asked = service.finish(service.asked(PARTITIONS))
    assert asked.result["changed"] is False


@pytest.mark.long
def test_expired_snapshots_take_their_statistics_along_and_the_others_keep_theirs(
    spark: SparkSession, warehouse: Warehouse, table: Path
) -> None:
    service, first = harness(spark, table), iceberg.snapshot_ids(table)[-1]
    for action in (TABLE, PARTITIONS):
        service.serve(action)
    warehouse.append(table, rows=30, start=100)
    iceberg.age(table, 10)
    service.history.clear()
    for action in (TABLE, PARTITIONS):
        service.serve(action)
    files = {Path(one["statistics-path"]) for action in LISTS for one in entries(table, action).values()}

    service.serve("expire-snapshots")

    kept = {Path(one["statistics-path"]) for action in LISTS for one in entries(table, action).values()}
    assert (len(files), len(kept)) == (4, 2)
    assert first not in entries(table, TABLE)
    assert {file for file in files if file.exists()} == kept
