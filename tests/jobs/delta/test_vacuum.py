# SPDX-License-Identifier: Apache-2.0
"""Vacuum on real tables that are made older than they are: lite and full, tried out first, and never too much."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.delta.vacuum import LiveFileListed
from lakehand.jobs.job import Job
from lakehand.jobs.safety import BelowFloor, ImplausibleShare
from lakehand.spi import Remedy, Skip, TableProcess
from lakehand.testing.harness import PluginHarness, boundary_parameter
from tests import delta_tables as delta
from tests.jobs.delta.conftest import HarnessFor

pytestmark = pytest.mark.spark


def orphan(path: Path, name: str, *, days: int) -> Path:
    """A file that a writer left and never committed."""
    file = path / name
    shutil.copy(next(path.glob("*.parquet")), file)
    moment = time.time() - days * delta.DAY
    os.utime(file, (moment, moment))
    return file


def trigger(harness: PluginHarness) -> TableProcess:
    answer = harness.wants("vacuum")
    assert isinstance(answer, TableProcess), answer
    return answer


def skipped(harness: PluginHarness, action: str = "vacuum") -> str:
    answer = harness.wants(action)
    assert isinstance(answer, Skip), answer
    return answer.reason


def test_removed_files_go_when_their_time_has_come_and_the_younger_stay(
    spark: SparkSession, old: Path, harness_for: HarnessFor
) -> None:
    delta.append(spark, old, number=5)
    spark.newSession().sql(f"OPTIMIZE {delta.quoted(old)}").collect()
    facts, described, here = delta.facts(spark, old), delta.described(old), delta.data_files(old)
    table = harness_for(old)
    assert trigger(table).reason.startswith("40 removed files with ")

    listed = table.finish(table.asked("vacuum", dry_run=True))
    assert (listed.result["would_delete_files"], listed.result["changed"]) == (40, False)
    odd = Job(spark.newSession(), {**listed.process.parameters, "dry_run": "no", "confirm": True})
    assert job_called("delta.vacuum")(odd)["would_delete_files"] == 40, "only a plain false deletes"
    assert delta.data_files(old) == here

    done = table.serve("vacuum")

    assert (done.process.parameters["mode"], done.result["files_deleted"]) == ("lite", 40)
    assert len(here - delta.data_files(old)) == 40
    assert delta.facts(spark, old) == facts
    assert delta.described(old) == described
    assert table.verdict(done, {}).numbers["files_deleted"] == 40
    assert skipped(table).startswith("0 removed files with 0 B are older than 7d since the last vacuum; 2 younger")
    assert [isinstance(table.wants(action), Skip) for action in ("optimize", "purge", "z-order")] == [True] * 3


def test_a_full_vacuum_also_finds_what_was_never_committed_once_it_is_old(
    spark: SparkSession, old: Path, harness_for: HarnessFor
) -> None:
    lost, fresh = orphan(old, "part-lost.parquet", days=9), orphan(old, "part-fresh.parquet", days=6)
    facts = delta.facts(spark, old)
    table = harness_for(old, vacuum__mode="full")

    done = table.serve("vacuum")

    assert done.result["files_deleted"] == 41
    assert (lost.exists(), fresh.exists()) == (False, True)
    assert delta.facts(spark, old) == facts
    assert delta.data_files(old) - {fresh.name} == delta.live_files(old)
    assert isinstance(table.wants("vacuum"), Skip)


def test_too_many_files_that_nobody_removed_are_deleted_only_when_a_person_confirms(
    spark: SparkSession, old: Path, harness_for: HarnessFor
) -> None:
    lost = [orphan(old, f"part-lost-{number}.parquet", days=30) for number in range(30)]
    table = harness_for(old, vacuum__mode="full")
    operation = table.admitted(table.stored(trigger(table)))

    with pytest.raises(ImplausibleShare, match=r"30 of 71 files \(42%\)") as stopped:
        table.execute(operation)

    failure = table.failure(operation, stopped.value)
    assert (failure.reason, failure.remedy) == ("implausible-share", Remedy.FATAL)
    assert "lakehand operations submit 1 vacuum --confirm" in failure.message
    assert all(file.exists() for file in lost)
    table.history.clear()
    confirmed = table.finish(table.asked("vacuum", confirm=True))
    assert confirmed.result["files_deleted"] == 70
    assert delta.data_files(old) == delta.live_files(old)


def test_a_table_that_keeps_longer_loses_nothing_on_any_request(
    spark: SparkSession, old: Path, harness_for: HarnessFor
) -> None:
    keep = "SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 30 days')"
    spark.sql(f"ALTER TABLE {delta.quoted(old)} {keep}")
    here = delta.data_files(old)
    table = harness_for(old, vacuum__retain="1h")
    assert "older than 30d" in skipped(table)

    asked = table.finish(table.asked("vacuum", options={"retain": "168h", "mode": "full"}, confirm=True))
    assert asked.process.parameters["retain_hours"] == 720
    assert asked.result["changed"] is False

    session = spark.newSession()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    odd = {**asked.process.parameters, "retain_hours": 168, "operation_tag": "odd", "confirm": True}
    with pytest.raises(Exception, match="low retention period"):
        job_called("delta.vacuum")(Job(session, odd))
    assert delta.data_files(old) == here


def odd_boundary(real: str) -> dict[str, Any]:
    return {"location": real, "real": real, "warehouses": ["/", "x`"], "folder": "1:1"}


@pytest.mark.parametrize(
    "odd",
    [
        {"retain_hours": 167}, {"retain_hours": 0}, {"retain_hours": -1}, {"retain_hours": "168"},
        {"retain_hours": 1e9}, {"retain_hours": True}, {"retain_hours": None}, {"mode": "lite RETAIN 0 HOURS --"},
        {"mode": None}, {"boundary": odd_boundary("x` RETAIN 0 HOURS\n--")}, {"boundary": odd_boundary("/x`\n--")},
        {"boundary": odd_boundary("")}, {"boundary": None}, {"operation_tag": "a'b"}, {"operation_tag": None},
    ],
)  # fmt: skip
def test_odd_parameters_given_straight_to_the_job_are_refused(
    spark: SparkSession, old_template: Path, odd: dict[str, Any]
) -> None:
    here = delta.data_files(old_template)
    sound = {
        "boundary": boundary_parameter(str(old_template)),
        "identity": next(one["metaData"]["id"] for one in delta.described(old_template) if "metaData" in one),
        "retain_hours": 168, "mode": "full", "operation_tag": "1-x", "dry_run": False, "confirm": True,
    }  # fmt: skip

    with pytest.raises((ValueError, TypeError, BelowFloor, OutsideTable)):
        job_called("delta.vacuum")(Job(spark.newSession(), {**sound, **odd}))

    assert delta.data_files(old_template) == here


def test_a_list_that_names_a_live_file_stops_everything(
    spark: SparkSession, old: Path, harness_for: HarnessFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = delta.data_files(old)
    table = harness_for(old)
    operation = table.admitted(table.stored(trigger(table)))
    doomed = sorted(here - delta.live_files(old))[0]
    monkeypatch.setattr("lakehand.jobs.delta.vacuum.live_files", lambda job: [f"file:{old}/{doomed}"])

    with pytest.raises(LiveFileListed, match="1 of 40 files"):
        table.execute(operation)

    assert delta.data_files(old) == here


def changes(spark: SparkSession, path: Path, version: int) -> int:
    """How many changed rows the change feed has of a version."""
    read = spark.read.format("delta").option("readChangeFeed", "true")
    return read.option("startingVersion", version).option("endingVersion", version).load(str(path)).count()


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_change_data_goes_by_its_own_age_and_stays_as_long_as_the_table_keeps_removed_files(
    mode: str, spark: SparkSession, tmp_path: Path, harness_for: HarnessFor
) -> None:
    """Delta's rule: rows of a version may be readable for longer than what changed in it."""
    path, keep = tmp_path / "feed", "delta.deletedFileRetentionDuration"
    delta.make_table(spark, path, commits=1, files=1, properties={"delta.enableChangeDataFeed": "true"})
    spark.sql(f"UPDATE {delta.quoted(path)} SET v = 1 WHERE id < 10")
    spark.sql(f"ALTER TABLE {delta.quoted(path)} SET TBLPROPERTIES ('{keep}' = 'interval 30 days')")
    delta.age(spark, path, 10)
    spark.sql(f"UPDATE {delta.quoted(path)} SET v = 2 WHERE id < 5")
    feed = path / "_change_data"
    every = set(feed.glob("cdc-*"))
    young = {file for file in every if file.stat().st_mtime > time.time() - delta.DAY}
    assert young < every
    table = harness_for(path, vacuum__mode=mode)

    table.finish(table.asked("vacuum", confirm=True))
    assert (changes(spark, path, 2), changes(spark, path, 4)) == (20, 10)

    spark.sql(f"ALTER TABLE {delta.quoted(path)} UNSET TBLPROPERTIES ('{keep}')")
    table.history.clear()
    table.finish(table.asked("vacuum", confirm=True))
    assert set(feed.glob("cdc-*")) == young
    assert changes(spark, path, 4) == 10
    assert spark.read.format("delta").option("versionAsOf", 2).load(str(path)).count() == delta.ROWS_EACH
