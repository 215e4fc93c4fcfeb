# SPDX-License-Identifier: Apache-2.0
"""Writers that commit in the middle of our rewrites, before or after us: all rows stay right, and nobody starves."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Operation, Remedy, Skip
from lakehand.testing.harness import PluginHarness
from tests import paimon_tables as paimon
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import disturbed, disturbed_plan, harness
from tests.kit.tiers import long_values
from tests.paimon_tables import Writer

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

SORT = {"compact__strategy": "sort", "compact__order_columns": "v"}
NEW = range(900_000, 900_005)


def kinds(path: Path) -> list[str]:
    return [one["commitKind"] for one in paimon.snapshots(path)]


def new_operation(service: PluginHarness) -> Operation:
    answer = service.wants("compact")
    assert not isinstance(answer, Skip), answer
    return service.admitted(service.stored(answer))


@pytest.mark.long
def test_rows_that_are_appended_while_small_files_are_packed_stay(
    spark: SparkSession, lake_with: Make, tmp_path: Path
) -> None:
    lake = lake_with("small_files")
    path, before = lake.path("small_files"), lake.facts("small_files")
    service, writer = harness(spark, path), Writer(spark, path)
    operation = new_operation(service)

    result = disturbed_plan(spark, tmp_path, lambda: service.execute(operation), lambda: writer.append(NEW))

    assert kinds(path) == ["APPEND", "APPEND", "APPEND", "COMPACT"]
    assert service.settled(operation, result).result["files_after"] == 2
    assert lake.facts("small_files")[:2] == (before[0] + 5, before[1] + sum(n * 7 for n in NEW))


@pytest.mark.long
def test_a_writer_that_began_before_a_packing_and_commits_after_it_loses_nothing(
    spark: SparkSession, lake_with: Make
) -> None:
    lake = lake_with("small_files")
    path, before = lake.path("small_files"), lake.facts("small_files")
    commit = Writer(spark, path).prepare(NEW)

    harness(spark, path).serve("compact")
    commit()

    assert kinds(path) == ["APPEND", "APPEND", "COMPACT", "APPEND"]
    assert lake.facts("small_files")[:2] == (before[0] + 5, before[1] + sum(n * 7 for n in NEW))


def test_a_packing_gives_way_to_a_delete_of_rows_and_is_planned_anew(
    spark: SparkSession, lake_with: Make, tmp_path: Path
) -> None:
    lake = lake_with("small_files")
    path = lake.path("small_files")
    service = harness(spark, path, compact__beside_row_changes="true")
    operation, delete = new_operation(service), Writer(spark, path).delete_files(3)

    with pytest.raises(Exception, match="conflicts detected") as caught:
        disturbed_plan(spark, tmp_path, lambda: service.execute(operation), delete)

    after = lake.facts("small_files")
    assert after[0] < 2040
    failure = service.failure(operation, caught.value)
    assert (failure.reason, failure.remedy) == ("write-conflict", Remedy.RETRY)
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    assert service.finish(operation).result["files_after"] == 1
    assert lake.facts("small_files") == after


@pytest.mark.parametrize("deleted", [*long_values(False), True])
def test_rows_that_are_written_or_deleted_by_key_while_runs_are_merged_stay_so(
    deleted: bool, spark: SparkSession, lake_with: Make
) -> None:
    lake = lake_with("keyed")
    path, before = lake.path("keyed"), lake.facts("keyed")
    service, writer = harness(spark, path, compact__strategy="minor"), Writer(spark, path)
    ids, change = (range(200, 205), -5) if deleted else (NEW, 5)
    operation = new_operation(service)

    result = disturbed(spark, operation, "committing", lambda: writer.append(ids, deleted=deleted))

    assert kinds(path)[-2:] == ["APPEND", "COMPACT"]
    service.settled(operation, result)
    expected = (before[0] + change, before[1] + sum(n * 7 for n in ids) * (1 if change > 0 else -1))
    assert lake.facts("keyed")[:2] == expected


@pytest.mark.long
def test_a_delete_by_key_that_began_before_a_full_merge_and_commits_after_it_counts(
    spark: SparkSession, lake_with: Make, tmp_path: Path
) -> None:
    lake = lake_with("keyed")
    path, before = lake.path("keyed"), lake.facts("keyed")
    service, writer = harness(spark, path, compact__strategy="full"), Writer(spark, path)
    commit = writer.prepare(range(200, 205), deleted=True)
    operation = new_operation(service)

    result = disturbed_plan(spark, tmp_path, lambda: service.execute(operation), lambda: writer.append(NEW))
    commit()

    assert kinds(path)[-3:] == ["APPEND", "COMPACT", "APPEND"]
    service.settled(operation, result)
    assert lake.facts("keyed")[0] == before[0] + 5 - 5


@pytest.mark.long
def test_rows_that_are_appended_while_a_table_is_sorted_stay(spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("small_files")
    path, before = lake.path("small_files"), lake.facts("small_files")
    service = harness(spark, path, **SORT)
    operation = new_operation(service)

    result = disturbed(spark, operation, "committing", lambda: Writer(spark, path).append(NEW))

    assert kinds(path)[-2:] == ["APPEND", "COMPACT"]
    service.settled(operation, result)
    assert lake.facts("small_files")[:2] == (before[0] + 5, before[1] + sum(n * 7 for n in NEW))


def test_a_sort_gives_way_to_a_delete_of_rows_and_leaves_no_file_behind(spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("small_files")
    path = lake.path("small_files")
    service = harness(spark, path, compact__beside_row_changes="true", **SORT)
    operation, data = new_operation(service), path / "bucket-0"

    def delete() -> None:
        delete.files = len(list(data.iterdir()))  # type: ignore[attr-defined]
        lake.sql("DELETE FROM {shop}.small_files WHERE id IN (3, 700)")
        delete.files = len(list(data.iterdir())) - delete.files  # type: ignore[attr-defined]

    known = len(list(data.iterdir()))
    with pytest.raises(Exception, match="conflicts detected") as caught:
        disturbed(spark, operation, "committing", delete)

    assert service.failure(operation, caught.value).reason == "write-conflict"
    assert len(list(data.iterdir())) == known + delete.files, "only the DELETE has left files"  # type: ignore[attr-defined]
    after = lake.facts("small_files")
    assert after[0] == 2040 - 2
    service.finish(operation)
    assert lake.facts("small_files") == after


@pytest.mark.long
def test_an_overwrite_wins_whether_it_comes_before_a_sort_or_after_it(spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("small_files")
    path, service = lake.path("small_files"), harness(spark, lake.path("small_files"), **SORT)
    operation = new_operation(service)
    overwrite = "INSERT OVERWRITE {shop}.small_files VALUES (1, 7, 'p', 'n')"

    with pytest.raises(Exception, match="conflicts detected"):
        disturbed(spark, operation, "committing", lambda: lake.sql(overwrite))
    assert lake.facts("small_files")[:2] == (1, 7)
    commit = Writer(spark, path).prepare_overwrite([2])
    service.finish(service.asked("compact"))
    commit()

    assert kinds(path)[-2:] == ["COMPACT", "OVERWRITE"]
    assert lake.facts("small_files")[:2] == (1, 14)


def test_two_runners_of_one_operation_rewrite_once(spark: SparkSession, lake_with: Make) -> None:
    lake = lake_with("small_files")
    path, before = lake.path("small_files"), lake.facts("small_files")
    service = harness(spark, path, **SORT)
    operation = new_operation(service)

    with pytest.raises(Exception, match="conflicts detected"):
        disturbed(spark, operation, "committing", lambda: service.execute(operation))

    assert kinds(path).count("COMPACT") == 1
    assert service.verdict(operation, {}).finding is Finding.DONE
    assert lake.facts("small_files") == before


def test_a_table_whose_rows_are_changed_in_place_is_left_alone_unless_its_owner_says_so(
    spark: SparkSession, lake_with: Make
) -> None:
    """Paimon does not check such a change against a compaction; the next test shows what comes of it."""
    lake = lake_with("small_files")
    path = lake.path("small_files")
    lake.sql("DELETE FROM {shop}.small_files WHERE id = 3")

    answer = harness(spark, path).wants("compact")

    assert isinstance(answer, Skip)
    assert "not compacted: snapshot 3 changed rows in place" in answer.reason
    assert "paimon.compact.beside-row-changes=true" in answer.reason
    assert not isinstance(harness(spark, path, compact__beside_row_changes="true").wants("compact"), Skip)


def test_a_delete_of_rows_that_met_a_compaction_is_seen_and_nothing_is_compacted_any_more(
    spark: SparkSession, lake_with: Make
) -> None:
    lake = lake_with("small_files")
    path = lake.path("small_files")
    delete = Writer(spark, path).delete_files(3)
    service = harness(spark, path, compact__min_files="2")
    service.serve("compact")
    delete()
    lake.append("small_files", 5000, 50, files=20)

    answer = service.wants("compact")

    assert isinstance(answer, Skip)
    assert answer.reason.startswith("3 files are deleted that are not in the table")
    assert service.runtime().snapshot().numbers["lost_deletions"] == 3
