# SPDX-License-Identifier: Apache-2.0
"""Archive on real tables of each version: the timeline is shorter, nothing else has changed, whatever happens to it."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.hudi import plans
from lakehand.jobs.hudi import archive
from lakehand.spi import Finding, Skip
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import COMMITS, ROWS, Copy, admitted, harness, version
from tests.jobs.hudi.service import LOCKING, table_state, unchanged
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
NOTHING_LEFT = "4 commits are on the active timeline; an archive keeps 4 and begins above 5"


def commits(path: Path) -> list[str]:
    return [found[1] for found in hudi.instant_files(path) if not found[4] and found[3] == "commit"]


def writes(spark: SparkSession, path: Path, number: int, table_version: str) -> None:
    options = version(table_version)
    hudi.upsert(spark, path, number=number, table_type=hudi.COPY_ON_WRITE, rows=ROWS, options=options)
    assert hudi.rows(spark, path) == hudi.expected(number, ROWS)


def savepoint_files(path: Path) -> list[str]:
    [file] = hudi.timeline(path).glob("*.savepoint")
    partitions = plans.read_document(file.read_bytes())["partitionMetadata"]
    return [f"{name}/{one}" for name, found in partitions.items() for one in found["savepointDataFile"]]


class Killed(Exception):
    """The driver dies here."""


@pytest.mark.parametrize("number", [*long_values("6", "8"), "9"])
def test_a_timeline_is_archived_once_and_its_writer_goes_on(number: str, spark: SparkSession, long: Copy) -> None:
    path = long(number)
    table, before = harness(spark, path), commits(path)
    operation = admitted(table, "archive")
    assert operation.process.reason.startswith("6 commits are on the active timeline, more than 5: 2 can be archived")

    dry = table.admitted(table.asked("archive", mode="plan-and-execute", dry_run=True))
    would = table.execute(dry)
    assert (would["would_archive"], would["would_delete_files"]) == (2, 6)
    assert commits(path) == before

    with unchanged(spark, path):
        ended = table.settled(operation, table.execute(operation))

    assert ended.reason == "2 commits were archived; the active timeline has 4, after 6 before"
    assert commits(path) == before[2:]
    assert table.verdict(operation, {}).finding is Finding.DONE, "the table alone must show it"
    assert table.wants("archive") == Skip(reason=NOTHING_LEFT)
    writes(spark, path, COMMITS + 1, number)


@pytest.mark.parametrize("number", [*long_values("6"), "9"])
def test_a_job_that_dies_before_it_has_deleted_the_archived_files_is_finished_by_the_next_attempt(
    number: str, spark: SparkSession, long: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = long(number)
    table, timeline = harness(spark, path), hudi.timeline(path)
    kept = [file for file in timeline.iterdir() if file.is_file()]
    operation = admitted(table, "archive")
    (tmp_path / "kept").mkdir()
    copies = [shutil.copy2(file, tmp_path / "kept" / file.name) for file in kept]

    usual = archive.move

    def die(archiver: Any, client: Any) -> None:
        """Hudi writes the archive first and then deletes: the deletion is taken back."""
        usual(archiver, client)
        for one in copies:
            shutil.copy2(one, timeline)
        raise Killed

    monkeypatch.setattr(archive, "move", die)
    with pytest.raises(Killed):
        table.execute(operation)
    monkeypatch.undo()

    assert table.verdict(operation, {}).finding is Finding.NOT_DONE
    before = table_state(spark, path)
    again = table.admitted(operation)
    table.settled(again, table.execute(again))
    assert len(commits(path)) == 4
    assert table_state(spark, path) == before
    writes(spark, path, COMMITS + 1, number)


def test_a_job_that_dies_after_the_archive_is_done_and_archives_no_more(spark: SparkSession, long: Copy) -> None:
    path = long("9")
    table = harness(spark, path)
    operation = admitted(table, "archive")
    table.execute(operation)  # and the result is lost
    writes(spark, path, COMMITS + 1, "9")

    verdict = table.verdict(operation, {})
    again = table.admitted(operation)
    result = table.execute(again)

    assert (verdict.finding, verdict.numbers["commits_archived"]) == (Finding.DONE, 2)
    assert result == {"archived": 0}
    assert table.verdict(again, result) == verdict
    assert len(commits(path)) == 5


@pytest.mark.long
def test_a_writer_commits_while_its_timeline_is_archived(spark: SparkSession, long: Copy) -> None:
    path = long("9")
    table = harness(spark, path)
    operation = admitted(table, "archive")

    with ThreadPoolExecutor(1) as pool:
        writing = [pool.submit(writes, spark, path, COMMITS + one, "9") for one in (1, 2)]
        result = table.execute(operation)
        for one in writing:
            one.result()

    table.settled(operation, result)
    assert hudi.rows(spark, path) == hudi.expected(COMMITS + 2, ROWS)
    assert len(commits(path)) >= 4


@pytest.mark.long
def test_what_a_savepoint_holds_stays_readable_through_archive_clean_and_dropped_partitions(
    spark: SparkSession, long: Copy
) -> None:
    path = long("9")
    table, saved = harness(spark, path), commits(path)[1]
    spark.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{saved}')").collect()

    def at_savepoint() -> list[tuple[Any, ...]]:
        """From the files that the savepoint names: after a clean, Hudi does not let anyone travel before it."""
        files = [str(path / name) for name in savepoint_files(path)]
        return sorted(tuple(row) for row in spark.read.parquet(*files).select("id", "p", "v", "note", "ts").collect())

    assert at_savepoint() == hudi.expected(2, ROWS)
    operation = admitted(table, "archive")
    assert f"1 can be archived, {commits(path)[0]}" in operation.process.reason
    assert f"then the savepoint {saved} keeps all commits from there on" in operation.process.reason
    table.settled(operation, table.execute(operation))
    assert commits(path)[0] == saved
    refused = table.wants("archive")
    assert isinstance(refused, Skip)
    dropping = {**LOCKING, **version("9"), "hoodie.datasource.write.operation": "delete_partition"}
    dropping["hoodie.datasource.write.partitions.to.delete"] = "p0"
    hudi.upsert(spark, path, number=7, table_type=hudi.COPY_ON_WRITE, rows=ROWS, options=dropping)
    for one in (8, 9):
        hudi.upsert(spark, path, number=one, table_type=hudi.COPY_ON_WRITE, rows=ROWS, options=version("9"))
    cleaning = admitted(table, "clean")
    cleaned = table.execute(cleaning)
    assert table.verdict(cleaning, cleaned).numbers["files_deleted"]

    assert at_savepoint() == hudi.expected(2, ROWS)
    assert hudi.rows(spark, path) == hudi.expected(9, ROWS)
    assert table.runtime().snapshot().numbers["savepoints"] == saved
