# SPDX-License-Identifier: Apache-2.0
"""Jobs that must stop: nothing is committed or deleted after that, and nothing odd is begun at all."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.iceberg import outside
from lakehand.jobs.job import Job, JobCanceled, Record
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.service import given, junk

pytestmark = pytest.mark.spark
HOUR = 3_600_000
REWRITES = ["rewrite_data", "rewrite_position_deletes", "rewrite_manifests"]


@dataclass
class Stopped(Record):
    """Must stop when the job comes to a phase that begins with a word."""

    word: str = ""

    def stop_reason(self) -> str:
        return "canceled" if self.word and self.phase.startswith(self.word) else ""


def run(spark: SparkSession, job: str, table: Path, stop: str = "", **parameters: Any) -> dict[str, Any]:
    complete = given(
        table, **{"operation_tag": "7-x", "older_than": int(time.time() * 1000) - 100 * HOUR, **parameters}
    )
    found: dict[str, Any] = job_called(f"iceberg.{job}")(Job(spark.newSession(), complete, record=Stopped(word=stop)))
    return found


@pytest.mark.parametrize("job", [*REWRITES, "expire_snapshots"])
def test_a_job_that_must_stop_commits_nothing(job: str, spark: SparkSession, history: Path) -> None:
    ids, there = iceberg.snapshot_ids(history), set(iceberg.files(history))

    with pytest.raises(JobCanceled):
        run(spark, job, history, stop="reading", expire=ids[:5])

    assert (iceberg.snapshot_ids(history), set(iceberg.files(history))) == (ids, there)


def test_a_removal_of_orphans_that_must_stop_goes_no_further(
    spark: SparkSession, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [junk(history, f"data/{number}.parquet") for number in range(3)]
    monkeypatch.setattr(outside, "BATCH", 1)
    with pytest.raises(JobCanceled):
        run(spark, "remove_orphans", history, stop="finding")
    assert sum(file.exists() for file in left) == 3

    with pytest.raises(JobCanceled):
        run(spark, "remove_orphans", history, stop="deleted")
    assert sum(file.exists() for file in left) == 2

    assert run(spark, "remove_orphans", history)["deleted_files"] == 2
    assert not any(file.exists() for file in left)


@pytest.mark.parametrize("job", REWRITES)
def test_work_that_nobody_could_recognise_later_is_not_begun(job: str, spark: SparkSession, history: Path) -> None:
    there = set(iceberg.files(history))

    for tag in (None, "", 7):
        with pytest.raises(Exception, match="the work has no operation tag"):
            run(spark, job, history, operation_tag=tag)
    with pytest.raises(Exception, match="is not an option of a rewrite"):
        run(spark, job, history, rewrite={"partial-progress.enabled": "true"})

    assert set(iceberg.files(history)) == there


def test_only_the_own_tag_shows_that_the_work_is_done(spark: SparkSession, warehouse: Warehouse, history: Path) -> None:
    everything = {"rewrite-all": "true"}
    assert run(spark, "rewrite_data", history, rewrite=everything)["rewritten"] == 24
    assert run(spark, "rewrite_data", history, operation_tag="7-y", rewrite=everything)["rewritten"] == 2

    assert run(spark, "rewrite_data", history, rewrite=everything)["already"] is True
    assert iceberg.operations(history).count("replace") == 2


def test_a_table_without_rows_needs_no_rewrite(spark: SparkSession, warehouse: Warehouse) -> None:
    table = warehouse.create(warehouse.folder / "without rows")
    assert [run(spark, job, table) for job in REWRITES] == [{"rewritten": 0}] * 3
