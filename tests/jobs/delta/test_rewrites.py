# SPDX-License-Identifier: Apache-2.0
"""Optimize, z-order and purge on real tables: decided with numbers, run on Spark, proved by the log, and done once."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta.rewrites import history_of
from lakehand.spi import Operation, Skip, TableProcess
from lakehand.testing.harness import PluginHarness, utc_now
from tests import delta_tables as delta
from tests.jobs.delta.conftest import HarnessFor

pytestmark = pytest.mark.spark


def serve(spark: SparkSession, harness: PluginHarness, path: Path, action: str) -> Operation:
    """Do what the table needs, and prove that nothing else changed and that nothing is left to do."""
    facts, described = delta.facts(spark, path), delta.described(path)
    done = harness.serve(action)
    assert delta.facts(spark, path) == facts
    assert delta.described(path) == described
    assert harness.verdict(done, {}).numbers["changed"] is True, "the log alone must show it"
    assert isinstance(harness.wants(action), Skip), "what was done must not be wanted again"
    snapshot: Any = harness.runtime().snapshot()
    assert list(history_of(snapshot, utc_now()).rewrites), "row-level writers rest from it"
    return done


def trigger(harness: PluginHarness, action: str) -> str:
    answer = harness.wants(action)
    assert isinstance(answer, TableProcess), answer
    return answer.reason


def skipped(harness: PluginHarness, action: str) -> str:
    answer = harness.wants(action)
    assert isinstance(answer, Skip), answer
    return answer.reason


def after(operation: Operation) -> Any:
    return operation.result["after"]


def test_small_files_with_deletion_vectors_become_one(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(spoiled)
    assert trigger(table, "optimize").startswith("24 of 24 files are under 96.0 MB: ")

    done = serve(spark, table, spoiled, "optimize")

    assert (done.result["files_removed"], done.result["files_added"]) == (24, 1)
    assert done.result["rows_in"] == done.result["rows_out"] == 720
    assert (after(done)["files"], after(done)["deletion_vectors"]) == (1, 0)
    assert "1 of 1 files are under" in skipped(table, "optimize")
    assert skipped(table, "purge") == "none of 1 files has a deletion vector"


def test_deletion_vectors_are_purged_and_no_other_file_is_touched(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    delta.append(spark, spoiled, number=10)
    whole = delta.live_files(spoiled, without_vectors=True)
    table = harness_for(spoiled)
    assert "of 25 files have deletion vectors: 80 of " in trigger(table, "purge")

    done = serve(spark, table, spoiled, "purge")

    assert after(done)["deletion_vectors"] == 0
    assert whole
    assert whole < delta.live_files(spoiled)
    assert done.result["rows_in"] == done.result["rows_out"]


def test_a_z_order_is_repeated_only_when_enough_was_written_since(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(spoiled, z_order__columns="id, p", z_order__min_bytes="1", z_order__target_file_bytes="32768")
    assert trigger(table, "z-order").startswith("24 of 24 files with ")

    done = serve(spark, table, spoiled, "z-order")
    assert after(done)["files"] > 1, "several files, each with ids of its own"
    assert skipped(table, "z-order").startswith(f"0 of {after(done)['files']} files with 0 B of ")

    delta.append(spark, spoiled, number=20, rows=100)
    assert skipped(table, "z-order").startswith(f"1 of {after(done)['files'] + 1} files with ")
    delta.append(spark, spoiled, number=6, files=4, rows=600)
    assert "to rewrite" in trigger(table, "z-order")


@pytest.mark.long
def test_only_the_partitions_that_need_it_are_z_ordered(
    spark: SparkSession, tmp_path: Path, harness_for: HarnessFor
) -> None:
    path = tmp_path / "by partition"
    delta.make_table(spark, path, commits=2, files=4, partitioned=True)
    table = harness_for(path, z_order__columns="id", z_order__min_bytes="1", optimize__min_files="8")
    serve(spark, table, path, "z-order")
    ordered = delta.live_files(path)
    delta.frame(spark, 7, 400).where("p = 'p 1'").write.format("delta").mode("append").save(str(path))
    assert "in 1 of 2 partitions" in trigger(table, "z-order")

    serve(spark, table, path, "z-order")

    assert {file.split("/")[0] for file in ordered & delta.live_files(path)} == {"p=p 0"}
    assert {file.split("/")[0] for file in ordered - delta.live_files(path)} == {"p=p 1"}


@pytest.mark.long
def test_a_partitioned_table_is_merged_within_its_partitions(
    spark: SparkSession, tmp_path: Path, harness_for: HarnessFor
) -> None:
    path = tmp_path / "by partition"
    properties = {"delta.columnMapping.mode": "name", "delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}
    delta.make_table(spark, path, commits=3, files=4, partitioned=True, properties=properties)
    table = harness_for(path, optimize__max_bytes="1")
    assert "24 files to rewrite into 2" in trigger(table, "optimize")

    first = table.serve("optimize")
    assert (first.result["files_removed"], first.result["files_added"]) == (12, 1), "one partition in each run"
    table.history.clear()
    rest = harness_for(path, optimize__max_bytes="1", optimize__min_files="2")
    serve(spark, rest, path, "optimize")

    assert delta.operations(path)[-2:] == ["OPTIMIZE", "OPTIMIZE"]


def test_what_a_person_asks_for_runs_below_every_threshold(
    spark: SparkSession, tmp_path: Path, harness_for: HarnessFor
) -> None:
    path = tmp_path / "few"
    delta.make_table(spark, path, commits=1, files=2)
    table = harness_for(path)
    assert "20 would be worth it" in skipped(table, "optimize")

    merged = table.finish(table.asked("optimize"))
    again = table.finish(table.asked("optimize"))

    assert (merged.result["changed"], merged.result["files_added"]) == (True, 1)
    assert again.result["changed"] is False
    assert "found nothing to change" in skipped(table, "optimize")


@pytest.mark.long
def test_liquid_clustering_is_kept_by_optimize(spark: SparkSession, tmp_path: Path, harness_for: HarnessFor) -> None:
    path = tmp_path / "liquid"
    spark.sql(
        f"CREATE TABLE {delta.quoted(path)} (id bigint, p string, v bigint, note string) USING delta CLUSTER BY (id)"
    )
    delta.append(spark, path, number=1, files=25)
    table = harness_for(path, z_order__columns="v")
    assert trigger(table, "optimize").startswith("25 of 25 files with ")
    assert skipped(table, "z-order") == "the table has liquid clustering by id: optimize keeps it"

    serve(spark, table, path, "optimize")

    assert skipped(table, "optimize").startswith("0 of 1 files with 0 B of ")
