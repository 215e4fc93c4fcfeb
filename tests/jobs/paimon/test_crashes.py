# SPDX-License-Identifier: Apache-2.0
"""A driver that dies in the middle of a job, or right after its commit: one rewrite, all rows, and a true verdict."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.paimon.compact import bins
from lakehand.spi import Finding, Operation, Skip, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import paimon_tables as paimon
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import harness, killed
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

CASES = {
    "pack": ("small_files", {}, "packing"),
    "merge": ("keyed", {"compact__strategy": "full"}, "merging"),
    "merge in the driver": ("keyed", {"compact__strategy": "minor"}, "committing"),
    "sort": ("small_files", {"compact__strategy": "sort", "compact__order_columns": "v"}, "committing"),
}


def rewrites(path: Path) -> int:
    return [one["commitKind"] for one in paimon.snapshots(path)].count("COMPACT")


def new_operation(service: PluginHarness, action: str = "compact") -> Operation:
    answer = service.wants(action)
    assert isinstance(answer, TableProcess), answer
    return service.admitted(service.stored(answer))


@pytest.mark.parametrize("case", ["pack", "sort", *long_values("merge", "merge in the driver")])
def test_a_driver_that_dies_before_the_commit_has_done_nothing_and_the_next_attempt_does_it(
    case: str, spark: SparkSession, lake_with: Make
) -> None:
    table, properties, step = CASES[case]
    lake = lake_with(table)
    before = lake.facts(table)
    service = harness(spark, lake.path(table), **properties)
    operation = new_operation(service)

    killed(spark, operation, step)
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    service.finish(operation)

    assert rewrites(lake.path(table)) == 1
    assert lake.facts(table) == before


@pytest.mark.parametrize("case", CASES)
def test_a_driver_that_dies_after_the_commit_has_done_it_and_the_next_attempt_does_nothing(
    case: str, spark: SparkSession, lake_with: Make
) -> None:
    table, properties, _ = CASES[case]
    lake = lake_with(table)
    before = lake.facts(table)
    service = harness(spark, lake.path(table), **properties)
    operation = new_operation(service)

    killed(spark, operation, "committed")
    verdict = service.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, True)
    again = service.admitted(operation)
    assert service.execute(again)["already_done"] is True

    assert rewrites(lake.path(table)) == 1
    assert lake.facts(table) == before


def test_a_driver_that_dies_between_two_rounds_has_done_some_and_the_next_decision_does_the_rest(
    spark: SparkSession, lake_with: Make
) -> None:
    lake = lake_with("partitions")
    before = lake.facts("partitions")
    service = harness(spark, lake.path("partitions"))
    operation = new_operation(service)
    counts = operation.process.parameters["counts"]
    assert isinstance(counts, list)
    first, second, *_ = bins(counts, 5)

    killed(spark, operation, f"packing {second} ")
    assert first > second
    service.settled(operation, {})
    service.serve("compact")

    assert isinstance(service.wants("compact"), Skip)
    assert lake.facts("partitions") == before


@pytest.mark.long
def test_an_expiry_that_was_cut_short_goes_on_where_it_stopped(
    spark: SparkSession, lake_with: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehand.jobs.paimon import expire_snapshots

    monkeypatch.setattr(expire_snapshots, "STEP", 10)
    lake = lake_with("history")
    path, before = lake.path("history"), lake.facts("history")
    paimon.age(path, 2)
    service = harness(spark, path)
    operation = new_operation(service, "expire-snapshots")

    killed(spark, operation, "expired")
    assert len(paimon.snapshots(path)) == 36 - 10
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    ended = service.finish(operation)

    assert (ended.result["snapshots_before"], ended.result["snapshots_after"]) == (36, 10)
    assert lake.facts("history") == before
