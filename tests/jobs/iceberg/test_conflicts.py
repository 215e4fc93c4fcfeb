# SPDX-License-Identifier: Apache-2.0
"""Writers that commit in the middle of our rewrites, and rewrites that are committed in the middle of theirs."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Remedy
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.conftest import Damaged
from tests.jobs.iceberg.service import admitted, execute, harness, skipped
from tests.kit.polling import wait_for
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
TIMEOUT = 120  # seconds


@pytest.mark.long
@pytest.mark.parametrize("action", ["rewrite-data", "rewrite-manifests"])
def test_rows_that_are_appended_in_the_middle_stay(
    action: str, spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    service = harness(spark, history, {"iceberg.rewrite-manifests.min-manifests": "2"})
    operation = admitted(service, action)

    result = execute(service, operation, rewriting=lambda: warehouse.append(history, rows=10, start=5000))

    service.settled(operation, result)
    assert warehouse.checksum(history)[0] == 120 + 10
    assert warehouse.sql(f"SELECT count(*) FROM {warehouse.name(history)} WHERE id >= 5000")[0][0] == 10


@pytest.mark.parametrize("version", [2, *long_values(3)])
def test_a_delete_in_the_middle_wins_and_the_next_attempt_plans_anew(
    version: int, spark: SparkSession, warehouse: Warehouse, damaged: Damaged
) -> None:
    table = damaged(version)
    service = harness(spark, table)
    operation = admitted(service, "rewrite-data")

    with pytest.raises(Exception, match="Cannot commit rewrite") as lost:
        execute(service, operation, rewriting=lambda: warehouse.delete(table, "id % 10 = 5"))

    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    failure = service.failure(operation, lost.value)
    assert (failure.reason, failure.remedy, failure.delay) == ("write-conflict", Remedy.RETRY, timedelta(minutes=1))
    assert warehouse.checksum(table)[0] == 700
    again = service.admitted(operation)
    service.settled(again, execute(service, again))
    assert warehouse.checksum(table)[0] == 700
    assert "row-level writers have 10 min to themselves" in rest(service.wants, warehouse, table)


def many_deletes(warehouse: Warehouse) -> Path:
    """80 of 200 rows are deleted, by eight files for the whole table."""
    table = warehouse.folder / f"deletes {uuid4().hex}"
    warehouse.create(table, partitioned=False, write_delete_granularity="partition")
    warehouse.append(table, files=4, rows=200)
    for number in range(8):
        warehouse.delete(table, f"id % 20 = {number}")
    return table


@pytest.mark.parametrize("write", ["delete", *long_values("append")])
def test_a_write_in_the_middle_of_a_merge_of_deletes_stays(
    write: str, spark: SparkSession, warehouse: Warehouse
) -> None:
    table = many_deletes(warehouse)
    service = harness(spark, table)
    operation = admitted(service, "rewrite-position-deletes")
    writes: dict[str, Callable[[], object]] = {
        "append": lambda: warehouse.append(table, rows=10, start=5000),
        "delete": lambda: warehouse.delete(table, "id % 20 = 9"),
    }

    done = service.settled(operation, execute(service, operation, rewriting=writes[write]))

    assert done.reason.startswith("8 delete files became 1 in snapshot ")
    assert right_rows(warehouse, table) == {"append": (130, 10, 8), "delete": (110, 0, 0)}[write]


def right_rows(warehouse: Warehouse, table: Path) -> tuple[int, ...]:
    """All rows, those that came later, and those that the eight deletes would meet if they came later."""
    counts = "count(*), count_if(id >= 5000), count_if(id % 20 < 8)"
    return tuple(warehouse.sql(f"SELECT {counts} FROM {warehouse.name(table)}")[0])


@pytest.mark.long
def test_an_append_that_began_before_our_merge_of_deletes_ends_with_the_right_rows(
    spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = many_deletes(warehouse)
    text = f"INSERT INTO {warehouse.name(table)} SELECT id + 5000, p, v, note FROM {warehouse.name(table)}"
    with writing(warehouse, f"{text} WHERE id % 20 IN (9, 16) AND held(id)", tmp_path) as writer:
        harness(spark, table).serve("rewrite-position-deletes")
        assert right_rows(warehouse, table) == (120, 0, 0)

    assert writer.exception() is None
    assert right_rows(warehouse, table) == (140, 20, 0)


def rest(wants: Callable[[str], object], warehouse: Warehouse, table: Path) -> str:
    """The reason when the table needs the next rewrite at once."""
    for number in range(5):
        warehouse.append(table, rows=2, start=6000 + number * 10)
    return skipped(wants("rewrite-data"))  # type: ignore[arg-type]


WRITES = {
    "delete": ("DELETE FROM {table} WHERE id % 10 = 6 AND held(id)", 700),
    "append": ("INSERT INTO {table} SELECT id + 9000, p, v, note FROM {table} WHERE id % 10 = 6 AND held(id)", 900),
}


@pytest.mark.long
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_began_before_our_commit_ends_with_the_right_rows(
    write: str, spark: SparkSession, warehouse: Warehouse, damaged: Damaged, tmp_path: Path
) -> None:
    table = damaged(2)
    service, (statement, expected) = harness(spark, table), WRITES[write]
    text = statement.format(table=warehouse.name(table))
    with writing(warehouse, text, tmp_path) as writer:
        service.serve("rewrite-data")
        assert warehouse.checksum(table)[0] == 800

    error = writer.exception()
    if error is not None:
        assert "Cannot commit, missing data files" in str(error)
        assert warehouse.checksum(table)[0] == 800
        warehouse.sql(text)
    assert (error is None) == (write == "append")
    assert warehouse.checksum(table)[0] == expected


@contextmanager
def writing(warehouse: Warehouse, statement: str, folder: Path) -> Iterator["Future[object]"]:
    """A statement that has read its snapshot and is held in the middle; it goes on at the end of the block."""
    warehouse.session.udf.register("held", latch(str(folder)), "boolean")
    with ThreadPoolExecutor(1) as pool:
        writer: Future[object] = pool.submit(warehouse.sql, statement)
        started = folder / "started"
        wait_for(lambda: started.exists() or writer.done(), "the writer to start", TIMEOUT, pace=0.05)
        assert started.exists(), writer.exception()
        try:
            yield writer
        finally:
            (folder / "go").touch()


def latch(folder: str) -> Callable[[int], bool]:
    def held(id: int) -> bool:
        """One row is held: one task, so that a core is left for others."""
        from pathlib import Path

        if id != 16:
            return True
        (Path(folder) / "started").touch()
        deadline = time.monotonic() + 120
        while not (Path(folder) / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return True

    return held
