# SPDX-License-Identifier: Apache-2.0
"""The Hudi jobs on real tables: each plan is completed once, all rows stay, and so does the table its writer made."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.domain.tables import TableReference
from lakehand.formats.hudi import HudiFormat
from lakehand.spi import Finding, Scheduling, TableProcess
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import COMMITS, OFF, ROWS, Copy, MergeOnRead
from tests.jobs.hudi.service import LOCKING, SERVICE, Service, unchanged
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

METADATA = {
    "on": {},
    "off": OFF,
    "some columns": {"hoodie.metadata.index.column.stats.column.list": "id,v"},
    "record index": {
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}
PARTITIONS = {
    "on": "column_stats,files,partition_stats",
    "off": None,
    "some columns": "column_stats,files,partition_stats",
    "record index": "files,record_index",
}


@pytest.mark.parametrize("metadata", long_values("on", "off", "some columns", "record index"))
def test_a_merge_on_read_table_is_served_in_both_ways_while_its_writer_goes_on(
    metadata: str, spark: SparkSession, tmp_path: Path
) -> None:
    path, options = tmp_path / "it's a table", {**LOCKING, **METADATA[metadata]}
    by_writer = Service(spark=spark, path=path)
    by_service = Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=SERVICE)

    def writes(number: int, **more: str) -> None:
        hudi.upsert(spark, path, number=number, options={**options, **more})
        assert hudi.rows(spark, path) == hudi.expected(number)

    writes(1)
    writes(2, **hudi.scheduling_compaction(2))
    [(planned, _)] = hudi.pending(path)
    assert by_writer.serve("compaction") == [planned]
    writes(3)
    writes(4)
    assert len(by_service.serve("compaction")) == 1
    assert len(by_service.serve("clean")) == 1
    writes(5)
    assert len(by_service.serve("clustering")) == 1
    writes(6)
    writes(7, **hudi.scheduling_clustering(1))
    [(clustering, _)] = hudi.pending(path)
    assert by_writer.serve("clustering") == [clustering]
    writes(8)
    cleaning = hudi.leave_clean_plan(spark, path, options)
    assert by_writer.serve("clean") == [cleaning]
    writes(9)
    assert not hudi.pending(path)
    assert hudi.properties(path).get("hoodie.table.metadata.partitions") == PARTITIONS[metadata]


@pytest.mark.long
def test_an_index_that_the_table_lacks_is_not_built_because_a_related_one_is_there(
    spark: SparkSession, merge_on_read: MergeOnRead
) -> None:
    path = merge_on_read("on", {})
    hudi.upsert(spark, path, number=3, options={**LOCKING, **hudi.scheduling_compaction(2)})
    hudi.take_index_away(path, "partition_stats")

    Service(spark=spark, path=path).serve("compaction")

    assert hudi.properties(path)["hoodie.table.metadata.partitions"] == "column_stats,files"


def test_plans_that_a_copy_on_write_writer_left_are_executed(spark: SparkSession, long: Copy) -> None:
    execute_left_plans(spark, long("9"), {**LOCKING, **OFF}, COMMITS + 1)


@pytest.mark.long
def test_plans_that_a_copy_on_write_writer_left_are_executed_beside_a_metadata_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    hudi.upsert(spark, tmp_path / "orders", number=1, table_type=hudi.COPY_ON_WRITE, rows=ROWS, options=LOCKING)
    execute_left_plans(spark, tmp_path / "orders", LOCKING, 2)


def execute_left_plans(spark: SparkSession, path: Path, options: dict[str, str], first: int) -> None:
    """``first``: the number of the next commit."""
    service = Service(spark=spark, path=path)

    def writes(number: int, **more: str) -> None:
        own = {**options, **more}
        hudi.upsert(spark, path, number=number, table_type=hudi.COPY_ON_WRITE, rows=ROWS, options=own)
        assert hudi.rows(spark, path) == hudi.expected(number, ROWS)

    writes(first, **hudi.scheduling_clustering(1))
    [(planned, _)] = hudi.pending(path)
    assert service.serve("clustering") == [planned]
    writes(first + 1)
    writes(first + 2)
    cleaning = hudi.leave_clean_plan(spark, path, options)
    under_way = hudi.pretend_to_write(path)
    assert service.serve("clean") == [cleaning]
    assert [file.exists() for file in under_way] == [True, True], "a clean must not roll back a live writer"
    for file in under_way:
        file.unlink()
    writes(first + 3)


@pytest.mark.long
def test_a_table_of_hudi_0_15_is_served_and_stays_one(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "old"
    with hudi.writer_elsewhere(path) as write:
        serve_an_old_table(spark, path, write)
    assert hudi.rows(spark, path) == hudi.expected(8)


def serve_an_old_table(spark: SparkSession, path: Path, write: hudi.Write) -> None:
    quiet, planning = {"options": LOCKING}, {"options": {**LOCKING, **hudi.scheduling_compaction(2)}}
    write(*({"number": number, **(planning if number == 2 else quiet)} for number in (1, 2, 3, 4)))
    by_service = Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=SERVICE)

    [(planned, _)] = hudi.pending(path)
    assert Service(spark=spark, path=path).serve("compaction") == [planned]
    assert len(by_service.serve("clean")) == 1
    assert len(by_service.serve("clustering")) == 1
    write({"number": 5, **quiet}, {"number": 6, **quiet})
    assert len(by_service.serve("compaction")) == 1
    write({"number": 7, "options": {**LOCKING, **hudi.scheduling_clustering(1)}})
    [(planned, _)] = hudi.pending(path)
    assert Service(spark=spark, path=path).serve("clustering") == [planned]
    cleaning = hudi.leave_clean_plan(spark, path, {**LOCKING, **hudi.VERSIONS[6]})
    assert Service(spark=spark, path=path).serve("clean") == [cleaning]
    snapshot = HudiFormat().inspect(TableReference(location=str(path)))
    assert (snapshot.version, snapshot.layout, snapshot.pending) == (6, 1, ())
    write({"number": 8, **quiet})


def test_two_runners_at_once_complete_a_plan_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "contested"
    hudi.make_table(spark, path, commits=2, options={**OFF, **hudi.scheduling_compaction(2)})
    service = Service(spark=spark, path=path)
    process = service.admitted("compaction")

    with unchanged(spark, path), ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(service.execute, process) for _ in range(2)]

    assert process.instant is not None
    assert len(hudi.completed(path, process.instant)) == 1
    assert len([run for run in runs if run.exception() is None]) == 1
    assert service.verdict(process, {}).finding is Finding.DONE


def test_nothing_to_do_is_reported_and_not_repeated(spark: SparkSession, long: Copy) -> None:
    path = long("9")
    unsorted = {key: value for key, value in SERVICE.items() if "order" not in key}
    service = Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=unsorted)
    process = service.admitted("clustering")

    with unchanged(spark, path):
        result = service.execute(process)

    assert isinstance(process, TableProcess)
    assert result["instants"] == []
    assert service.verdict(process, result).reason == "nothing to do: Hudi made no clustering plan"
