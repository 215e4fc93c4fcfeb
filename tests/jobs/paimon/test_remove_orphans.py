# SPDX-License-Identifier: Apache-2.0
"""Orphans of real tables: only old files that nothing refers to are deleted, and in doubt nothing is."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.spi import Drop, Failure, Finding, Remedy, Skip, TableProcess
from lakehand.testing import untouched
from tests import paimon_tables as paimon
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import harness
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


@pytest.fixture
def lake(lake_with: Make) -> Lake:
    """All files are 5 days old, and 12 belong to nothing."""
    lake = lake_with("small_files")
    plant(lake.path("small_files"), 12)
    paimon.age(lake.path("small_files"), 5)
    return lake


def plant(path: Path, count: int, *, days: float = 0) -> list[Path]:
    """Files as a writer leaves them that died before its commit."""
    made = [path / "bucket-0" / f"data-{days}-{number}-orphan.parquet" for number in range(count - 1)]
    made.append(path / "manifest" / f"manifest-{days}-orphan-0")
    for file in made:
        file.write_bytes(b"orphan")
        os.utime(file, (time.time() - days * paimon.DAY,) * 2)
    return made


def run(spark: SparkSession, parameters: Any) -> Any:
    return job_called("paimon.remove_orphans")(Job(spark.newSession(), dict(parameters)))


def test_old_files_that_nothing_refers_to_are_deleted_and_no_others(spark: SparkSession, lake: Lake) -> None:
    path, before = lake.path("small_files"), lake.facts("small_files")
    young = plant(path, 3, days=2.5)
    service = harness(spark, path)

    wanted = service.wants("remove-orphans")
    assert isinstance(wanted, TableProcess)
    assert wanted.reason == "12 of 125 files are older than 3d and belong to no snapshot: 72 B"
    ended = service.finish(service.stored(wanted))

    assert ended.reason == "12 were deleted; 113 files belong to snapshots"
    assert {file.name for file in path.rglob("*orphan*")} == {file.name for file in young}
    assert lake.facts("small_files") == before
    again = service.wants("remove-orphans")
    assert isinstance(again, Skip)
    assert again.reason == "0 of 113 files are older than 3d and belong to no snapshot; worth it from 1"


def test_files_of_tags_branches_and_old_snapshots_are_no_orphans(spark: SparkSession, lake: Lake) -> None:
    path = lake.path("small_files")
    lake.sql("CALL lake.sys.create_tag(table => 'shop.small_files', tag => 'first', snapshot => 1)")
    lake.sql("CALL lake.sys.create_branch(table => 'shop.small_files', branch => 'own', tag => 'first')")
    lake.sql("CALL lake.sys.create_branch(table => 'shop.small_files', branch => 'empty')")
    lake.sql("INSERT INTO {shop}.`small_files$branch_own` VALUES (1, 2, 'p', 'n')")
    lake.sql("ANALYZE TABLE {shop}.small_files COMPUTE STATISTICS")
    harness(spark, path).serve("compact")
    (path / "snapshot" / "snapshot-1").unlink()  # now only the tag and the branch know its files
    (path / "snapshot" / "EARLIEST").unlink(missing_ok=True)
    paimon.age(path, 5)
    before = lake.facts("small_files")

    assert harness(spark, path).serve("remove-orphans").result["deleted_files"] == 12

    assert lake.facts("small_files") == before
    assert paimon.facts(spark, path, **{"scan.tag-name": "first"})[0] == 2000
    assert lake.sql("SELECT count(1) FROM {shop}.`small_files$branch_own`")[0][0] == 2001


def test_a_dry_run_names_what_would_go_and_deletes_nothing(spark: SparkSession, lake: Lake) -> None:
    path = lake.path("small_files")
    service = harness(spark, path)
    admitted = service.admitted(service.asked("remove-orphans", dry_run=True))

    with untouched(path):
        result = service.execute(admitted)

    assert (result["would_delete_files"], result["would_delete_bytes"]) == (12, 72)
    assert {Path(name).name for name in result["would_delete"]} == {file.name for file in path.rglob("*orphan*")}
    verdict = service.verdict(admitted, result)
    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, False)


def test_a_manifest_that_is_missing_makes_no_file_an_orphan(spark: SparkSession, lake: Lake) -> None:
    """Paimon's own removal would delete live files then."""
    path = lake.path("small_files")
    service = harness(spark, path)
    admitted = service.admitted(service.asked("remove-orphans"))
    hidden = next(f for f in (path / "manifest").iterdir() if "list" not in f.name and "orphan" not in f.name)
    hidden.rename(path.parent / "hidden")

    with untouched(path), pytest.raises(Exception, match=r"can be read|are in use") as caught:
        run(spark, {**admitted.process.parameters, "confirm": True})

    failure = service.failure(admitted, caught.value)
    assert (failure.reason, failure.remedy) == ("metadata-unreadable", Remedy.RETRY)
    answer = harness(spark, path).wants("remove-orphans")
    assert isinstance(answer, Skip)
    assert answer.reason.startswith("nothing is deleted while its metadata cannot be read")
    refused = service.factory.admit(service.runtime(), service.asked("remove-orphans", confirm=True))
    assert isinstance(refused, Failure)
    dropped = service.factory.admit(service.runtime(), service.stored(TableProcess(action=admitted.process.action)))
    assert isinstance(dropped, Drop)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("last entries cut off", "not everything that refers to files"),
        ("header cut off", "EOFException"),
        ("no snapshot", "has no snapshot"),
    ],
)
def test_metadata_that_is_not_whole_makes_no_file_an_orphan(
    damage: str, error: str, spark: SparkSession, lake: Lake
) -> None:
    path = lake.path("small_files")
    service = harness(spark, path)
    admitted = service.admitted(service.asked("remove-orphans"))
    if damage == "no snapshot":
        for snapshot in (path / "snapshot").iterdir():
            snapshot.unlink()
    else:
        lists = [f for f in (path / "manifest").iterdir() if "list" in f.name]
        longest = max(lists, key=lambda f: f.stat().st_size)  # others have no entries, only a header
        longest.write_bytes(longest.read_bytes()[: -30 if damage == "last entries cut off" else 100])

    with untouched(path), pytest.raises(Exception, match=error):
        run(spark, {**admitted.process.parameters, "confirm": True})

    assert isinstance(harness(spark, path).wants("remove-orphans"), Skip)
    assert isinstance(service.factory.admit(service.runtime(), service.asked("remove-orphans")), Failure)


def test_too_many_orphans_are_deleted_only_if_someone_confirms(spark: SparkSession, lake: Lake) -> None:
    path = lake.path("small_files")
    plant(path, 60, days=5)
    service = harness(spark, path)
    admitted = service.admitted(service.asked("remove-orphans"))

    with untouched(path), pytest.raises(Exception, match=r"72 of \d+ files \(3\d%\) look like orphans") as caught:
        service.execute(admitted)

    failure = service.failure(admitted, caught.value)
    assert (failure.reason, failure.remedy) == ("implausible-share", Remedy.FATAL)
    assert "lakehand operations submit 1 remove-orphans --confirm" in failure.message
    assert service.finish(service.asked("remove-orphans", confirm=True)).result["deleted_files"] == 72


@pytest.mark.parametrize(
    "wrong",
    [0, -1, "soon", None, True, int(time.time() * 1000), 10**15],
    ids=["0", "-1", "soon", "none", "true", "now", "never"],
)
def test_a_job_refuses_to_delete_young_files(wrong: Any, spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, lake.path("small_files"))
    admitted = service.admitted(service.asked("remove-orphans"))
    parameters = {**admitted.process.parameters, "older_than": wrong, "confirm": True}

    if wrong in (0, -1) and wrong is not True:
        assert run(spark, parameters)["deleted_files"] == 0, "nothing is that old"
        return
    with pytest.raises(Exception, match=r"milliseconds|72 h") as caught:
        run(spark, parameters)
    assert service.failure(admitted, caught.value).reason == "refused"


def test_neither_requests_nor_properties_delete_files_of_the_last_three_days(spark: SparkSession, lake: Lake) -> None:
    path = lake.path("small_files")
    young = plant(path, 3, days=2.9)
    service = harness(spark, path, remove_orphans__older_than="0s", remove_orphans__older_than_floor="0s")
    service.factory.open({"paimon.remove-orphans.older-than-floor": "60s"})

    service.finish(service.asked("remove-orphans", options={"older-than": "0s"}, confirm=True))

    assert all(file.exists() for file in young)


def test_a_table_with_more_files_than_a_decision_counts_is_served_by_time(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, lake.path("small_files"), remove_orphans__look_files="20")

    ended = service.serve("remove-orphans")

    assert ended.process.reason == "more than 20 files: not counted, so done every 7 days"
    assert ended.result["deleted_files"] == 12
    again = service.wants("remove-orphans")
    assert isinstance(again, Skip)
    assert "not counted; last removed at" in again.reason
