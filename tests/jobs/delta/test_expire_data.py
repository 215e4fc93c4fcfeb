# SPDX-License-Identifier: Apache-2.0
"""Rows past their age go from real tables: exactly these, in one commit with the tag, and never the young."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Json, Operation, Remedy, Skip, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import delta_tables as delta
from tests.jobs.delta.conftest import HarnessFor
from tests.jobs.delta.meddlers import elsewhere, meddling
from tests.kit.interruptions import Interruptions, run_job
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
NOW = datetime.now(timezone.utc)
SETTINGS = {"expire_data__column": "at", "expire_data__max_age": "30d"}
TYPES = {"timestamp": "TIMESTAMP '{}Z'", "timestamp_ntz": "TIMESTAMP_NTZ '{}'", "date": "DATE '{}'"}
VECTORS = {"delta.enableDeletionVectors": "true", "delta.autoOptimize.autoCompact": "true"}


def create(spark: SparkSession, path: Path, *, by: str = "", type: str = "timestamp", **properties: str) -> Path:
    given = {**VECTORS, **{key.replace("_", "."): value for key, value in properties.items()}}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    parts = f" PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE {delta.quoted(path)} (id bigint, at {type}) USING delta{parts} TBLPROPERTIES ({pairs})")
    return path


def append(spark: SparkSession, path: Path, rows: Mapping[int, float | None], type: str = "timestamp") -> None:
    """One file for each partition, with rows so many days old by their id; None: without a value."""
    values = ", ".join(f"({number}, {value_of(age, type)})" for number, age in rows.items())
    frame = spark.sql(f"SELECT CAST(id AS bigint) id, at FROM VALUES {values} AS t(id, at)")
    frame.coalesce(1).write.format("delta").mode("append").save(str(path))


def value_of(age: float | None, type: str) -> str:
    moment = "" if age is None else f"{NOW - timedelta(days=age):%Y-%m-%d %H:%M:%S}"
    return f"CAST(NULL AS {type})" if age is None else TYPES[type].format(moment[:10] if type == "date" else moment)


def ids(spark: SparkSession, path: Path) -> list[int]:
    """By an expression: Delta's reader of tables with deletion vectors may give rows that only an expression takes."""
    found = spark.newSession().read.format("delta").load(str(path)).selectExpr("id + 0")
    return sorted(row[0] for row in found.collect())


def own_commits(path: Path) -> list[dict[str, Any]]:
    return [one for one in delta.infos(path) if str(one.get("userMetadata")).startswith("lakehand-operation=")]


def requested(table: PluginHarness, **parameters: Json) -> Operation:
    return table.admitted(table.asked("expire-data", **parameters))


def forged(table: PluginHarness, operation: Operation, **change: Any) -> dict[str, Any]:
    parameters = {**operation.process.parameters, **change}
    return run_job(table.session, operation.process.job, parameters, Interruptions())


@pytest.fixture
def aged(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path:
    """Old: 1 to 4, of which 2 is deleted already. Young or without a value: 5 to 12."""
    path = create(spark, tmp_path / "it's {aged}", delta_enableDeletionVectors=getattr(request, "param", "true"))
    append(spark, path, {1: 45, 3: 44})
    append(spark, path, {2: 40, 4: 39, 5: 1, 6: 2, 7: None, 8: 0})
    append(spark, path, {9: 3, 10: 2, 11: 1, 12: 0})
    delta.delete(spark.newSession(), path, "id = 2")
    return path


@pytest.mark.parametrize("aged", ["true", *long_values("false")], indirect=True)
def test_rows_go_in_one_commit(spark: SparkSession, aged: Path, harness_for: HarnessFor) -> None:
    table, commits = harness_for(aged, **SETTINGS, expire_data__rewrite_after="0s"), len(delta.commits(aged))
    dry = requested(table, dry_run=True)
    found = table.execute(dry)

    assert len(delta.commits(aged)) == commits, "a dry run changes nothing"
    assert (found["would_delete_rows"], found["would_delete_files"]) == (3, 2)
    assert found["newest"] == f"{NOW - timedelta(days=39):%Y-%m-%d %H:%M:%S}"
    assert "would delete 3 rows in 2 files" in table.settled(dry, found).reason

    done = table.serve("expire-data")

    assert ids(spark, aged) == [5, 6, 7, 8, 9, 10, 11, 12]
    [made] = own_commits(aged)
    assert (made["operation"], made["userMetadata"]) == ("DELETE", f"lakehand-operation={done.tag}")
    assert len(delta.commits(aged)) == commits + 1, "no merging after it"
    assert done.result["deleted_rows"] == 3
    assert isinstance(table.wants("expire-data"), Skip), "what was done must not be wanted again"
    assert table.execute(done)["already_done"], "an attempt after its commit does not commit again"
    assert len(delta.commits(aged)) == commits + 1


def test_the_job_keeps_its_floor_whatever_its_parameters_say(
    spark: SparkSession, aged: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(aged, **SETTINGS)
    operation, commits = requested(table, confirm=True), len(delta.commits(aged))
    today = int(NOW.timestamp() * 1000)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"cutoff": today}, "nothing younger than 168 h"),
        ({"cutoff": today + 10**9}, "nothing younger than 168 h"),
        ({"cutoff": None}, "is not a time"),
        ({"column": "id"}, "rows do not grow old by 'id'"),
        ({"column": "gone"}, "rows do not grow old by 'gone'"),
        ({"operation_tag": ""}, "no operation tag"),
    ]
    for change, said in changes:
        with pytest.raises(Exception, match=said):
            forged(table, operation, **change)
    append(spark, aged, dict.fromkeys(range(20, 40), 50))
    with pytest.raises(Exception, match=r"rows before .* more than 50% is not deleted") as lost:
        forged(table, operation, confirm=False)
    assert table.failure(operation, lost.value).reason == "implausible-share"
    assert len(delta.commits(aged)) == commits + 1, "the writer's alone"


def test_whole_partitions_go_by_the_log_alone(spark: SparkSession, tmp_path: Path, harness_for: HarnessFor) -> None:
    path = create(spark, tmp_path / "by day", by="at", type="date", delta_columnMapping_mode="name")
    append(spark, path, {1: 100, 2: 60, 3: 1, 4: 0, 5: None, 6: 2, 7: 3}, "date")
    known = delta.data_files(path)
    table = harness_for(path, **SETTINGS)

    done = table.serve("expire-data")

    assert ids(spark, path) == [3, 4, 5, 6, 7]
    assert delta.data_files(path) == known, "nothing is written; the files stay for a vacuum"
    assert (done.result["deleted_rows"], done.result["files_removed"], done.result["files_added"]) == (2, 2, 0)


@pytest.mark.long
@pytest.mark.parametrize("type", ["date", "timestamp_ntz"])
def test_rows_grow_old_by_dates_and_by_times_without_a_zone(
    spark: SparkSession, tmp_path: Path, harness_for: HarnessFor, type: str
) -> None:
    path = create(spark, tmp_path / type, type=type)
    append(spark, path, {1: 100, 2: 60}, type)
    append(spark, path, {3: 1, 4: 0, 5: None, 6: 29}, type)
    append(spark, path, {7: 1, 8: 0, 9: 3}, type)

    harness_for(path, **SETTINGS).serve("expire-data")

    assert ids(spark, path) == [3, 4, 5, 6, 7, 8, 9]


def test_a_writer_that_changes_a_file_with_old_rows_wins(
    spark: SparkSession, aged: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(aged, **SETTINGS, expire_data__rewrite_after="0s")
    wanted = table.wants("expire-data")
    assert isinstance(wanted, TableProcess), wanted
    operation = table.admitted(table.stored(wanted))
    delete = elsewhere(lambda: delta.delete(spark.newSession(), aged, "id = 6"))

    with meddling(spark, delete), pytest.raises(Exception, match="DELTA_CONCURRENT") as lost:
        table.execute(operation)

    assert ids(spark, aged) == [1, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert table.verdict(operation, {}).finding is Finding.NOT_DONE
    failure = table.failure(operation, lost.value)
    assert (failure.reason, failure.remedy) == ("write-conflict", Remedy.RETRY)
    table.finish(operation)
    assert ids(spark, aged) == [5, 7, 8, 9, 10, 11, 12]
    assert len(own_commits(aged)) == 1


@pytest.mark.long
def test_a_change_feed_shows_what_was_deleted(spark: SparkSession, tmp_path: Path, harness_for: HarnessFor) -> None:
    path = create(spark, tmp_path / "feed", delta_enableChangeDataFeed="true")
    append(spark, path, {1: 45, 2: 44})
    append(spark, path, {3: 1, 4: 0, 5: 2})
    assert isinstance(harness_for(path, **SETTINGS).wants("expire-data"), Skip)

    harness_for(path, **SETTINGS, expire_data__into_change_feed="true").serve("expire-data")

    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3).load(str(path))
    assert sorted((row["id"], row["_change_type"]) for row in feed.collect()) == [(1, "delete"), (2, "delete")]
