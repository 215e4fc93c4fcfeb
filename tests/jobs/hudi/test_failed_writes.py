# SPDX-License-Identifier: Apache-2.0
"""Dead writes on real tables of each version are rolled back once; a live one, or a plan, never is."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Remedy, Skip
from tests import hudi_failures
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import ROWS, Copy, admitted, harness, version
from tests.jobs.hudi.service import unchanged
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ACTION = "rollback-failed-writes"
AT_REST = Skip(reason="pending writes: 0")


def dead_write(path: Path) -> str:
    [(instant, _)] = hudi.pending(path)
    return instant


def rollbacks(path: Path) -> list[str]:
    return [found[0] for found in hudi.instant_files(path) if found[3] == "rollback" and not found[4]]


def data_files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.glob("p*/*") if file.suffix == ".parquet")


def writes(spark: SparkSession, path: Path, number: int, table_version: str) -> None:
    kind = hudi.properties(path)["hoodie.table.type"]
    hudi.upsert(spark, path, number=number, table_type=kind, rows=ROWS, options=version(table_version))
    assert hudi.rows(spark, path) == hudi.expected(number, ROWS)


@pytest.mark.parametrize("number", [*long_values("6", "8"), "9"])
def test_a_dead_write_is_rolled_back_once_and_the_next_writer_goes_on(
    number: str, spark: SparkSession, failed: Copy
) -> None:
    path = failed(number)
    table, instant = harness(spark, path), dead_write(path)
    operation = admitted(table, ACTION)
    wanted = f"1 of 1 pending writes are dead after 10 min without a heartbeat: {instant} (no sign of life for 60 min)"
    assert operation.process.reason == wanted

    dry = table.admitted(table.asked(ACTION, mode="plan-and-execute", dry_run=True))
    would = table.execute(dry)
    assert (would["would_roll_back"], would["would_delete_files"]) == ([instant], 2)
    assert dead_write(path) == instant

    with unchanged(spark, path):
        ended = table.settled(operation, table.execute(operation))

    assert ended.reason == (
        f"1 of 1 dead writes were rolled back, and 2 files deleted: {instant} ({rollbacks(path)[0]})"
    )
    assert hudi.pending(path) == []
    assert not (path / ".hoodie" / ".heartbeat" / instant).exists()
    assert not any(instant in file.name for file in path.rglob("*") if ".hoodie" not in file.parts)
    assert table.wants(ACTION) == AT_REST
    assert table.verdict(operation, {}).finding is Finding.DONE, "the timeline alone must show it"
    writes(spark, path, 3, number)


def test_a_rollback_that_died_in_the_middle_is_finished_and_one_that_was_done_is_not_repeated(
    spark: SparkSession, failed: Copy
) -> None:
    path = failed("9")
    table = harness(spark, path)
    operation = admitted(table, ACTION)
    table.execute(operation)  # and the result is lost
    assert table.verdict(operation, {}).finding is Finding.DONE
    result = table.execute(table.admitted(operation))
    assert result["gone"] == operation.process.parameters["instants"]

    [done] = rollbacks(path)
    (hudi.timeline(path) / done).unlink()  # as if it had died right before it was complete
    hudi_failures.age(path, seconds=30)
    begun = table.verdict(operation, {})
    assert begun.finding is Finding.NOT_DONE
    assert "is not completed" in begun.reason
    waiting = table.factory.admit(table.runtime(), table.remember(operation))
    assert isinstance(waiting, Skip), "whoever began it may still be at it"
    hudi_failures.age(path)
    again = table.admitted(operation)
    table.settled(again, table.execute(again))
    assert len(rollbacks(path)) == 1
    assert table.wants(ACTION) == AT_REST
    writes(spark, path, 3, "9")


def test_a_writer_that_is_back_before_the_lock_is_taken_keeps_its_write(spark: SparkSession, failed: Copy) -> None:
    path = failed("9")
    table, instant = harness(spark, path), dead_write(path)
    operation = admitted(table, ACTION)
    os.utime(path / ".hoodie" / ".heartbeat" / instant, (time.time(), time.time()))
    before = data_files(path)

    result = table.execute(operation)

    assert result == {"rolled_back": [], "alive": [instant], "gone": []}
    assert (dead_write(path), data_files(path), rollbacks(path)) == (instant, before, [])
    verdict = table.verdict(operation, result)
    assert (verdict.finding, verdict.reason) == (
        Finding.GONE, f"write {instant} had a heartbeat again: it is left alone",
    )  # fmt: skip


def test_while_somebody_holds_the_lock_nothing_is_done_and_no_attempt_is_lost(
    spark: SparkSession, failed: Copy
) -> None:
    path = failed("9")
    impatient = {"wait_time_ms": "10", "client.num_retries": "1", "client.wait_time_ms_between_retry": "10"}
    table = harness(spark, path, **{f"hoodie.write.lock.{key}": value for key, value in impatient.items()})
    operation, lock = admitted(table, ACTION), path / ".hoodie" / "lock"
    lock.touch()

    with pytest.raises(Py4JJavaError) as caught:
        table.execute(operation)

    assert (len(hudi.pending(path)), rollbacks(path)) == (1, [])
    failure = table.failure(operation, caught.value)
    assert (failure.reason, failure.remedy) == ("lock-held", Remedy.NOT_YET)
    lock.unlink()
    table.settled(operation, table.execute(operation))


@pytest.mark.long
def test_a_live_write_and_a_plan_beside_a_dead_write_are_left_alone(spark: SparkSession, failed: Copy) -> None:
    path = failed("9")
    planning = {**version("9"), **hudi.scheduling_clustering(1)}
    hudi.upsert(spark, path, number=3, table_type=hudi.COPY_ON_WRITE, rows=ROWS, options=planning)
    plans = [one for one in hudi.pending(path) if one[1] == "clustering"]
    hudi_failures.age(path)
    table = harness(spark, path)
    operation = admitted(table, ACTION)
    assert len(plans) == 1
    assert plans[0][0] not in operation.process.parameters["instants"]  # type: ignore[operator]

    with ThreadPoolExecutor(1) as pool:
        insert = {**version("9"), "hoodie.datasource.write.operation": "bulk_insert"}
        writing = pool.submit(
            hudi.upsert, spark, path, number=4, table_type=hudi.COPY_ON_WRITE, rows=1, options=insert
        )  # fmt: skip
        result = table.execute(operation)
        writing.result()

    table.settled(operation, result)
    assert hudi.pending(path) == plans
    assert len(hudi.rows(spark, path)) == ROWS + 1
