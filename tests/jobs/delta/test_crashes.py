# SPDX-License-Identifier: Apache-2.0
"""The job dies in the middle, or after its commit and before it can report it: one rewrite, and the table shows it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Operation, Skip, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import delta_tables as delta
from tests.jobs.delta.conftest import HarnessFor
from tests.jobs.delta.meddlers import die, meddling
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
REWRITES = {"optimize": "OPTIMIZE", "z-order": "OPTIMIZE", "purge": "REORG"}
SETTINGS = {"z_order__columns": "id", "z_order__min_bytes": "1"}


def admitted(table: PluginHarness, action: str) -> Operation:
    wanted = table.wants(action)
    assert isinstance(wanted, TableProcess), wanted
    return table.admitted(table.stored(wanted))


def test_a_job_that_dies_before_its_commit_has_done_nothing_and_is_done_again(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    facts = delta.facts(spark, spoiled)
    table = harness_for(spoiled)
    operation = admitted(table, "optimize")

    with meddling(spark, die), pytest.raises(Exception, match="killed in the middle"):
        table.execute(operation)

    assert table.verdict(operation, {}).finding is Finding.NOT_DONE
    assert delta.facts(spark, spoiled) == facts
    assert table.finish(operation).result["files_added"] == 1
    assert delta.operations(spoiled).count("OPTIMIZE") == 1
    assert delta.facts(spark, spoiled) == facts


@pytest.mark.parametrize("action", ["optimize", *long_values("purge", "z-order")])
def test_a_job_that_dies_after_its_commit_is_done_and_not_done_twice(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor, action: str
) -> None:
    facts = delta.facts(spark, spoiled)
    table = harness_for(spoiled, **SETTINGS)
    operation = admitted(table, action)
    table.execute(operation)  # and the result is lost
    delta.append(spark, spoiled, number=50, rows=10)

    verdict = table.verdict(operation, {})
    again = table.admitted(operation)
    result = table.execute(again)

    assert verdict.finding is Finding.DONE
    assert verdict.numbers["changed"] is True
    assert result["already_done"] is True
    assert table.verdict(again, result).numbers["versions"] == verdict.numbers["versions"]
    assert delta.operations(spoiled).count(REWRITES[action]) == 1
    assert delta.facts(spark, spoiled)[0] == facts[0] + 10


@pytest.mark.long
def test_a_vacuum_that_dies_is_finished_by_the_next_attempt(
    spark: SparkSession, old: Path, harness_for: HarnessFor
) -> None:
    facts = delta.facts(spark, old)
    table = harness_for(old)
    operation = admitted(table, "vacuum")

    with meddling(spark, die, skip=1), pytest.raises(Exception, match="killed in the middle"):
        table.execute(operation)

    assert delta.operations(old)[-1] == "VACUUM START"
    assert table.verdict(operation, {}).finding is Finding.NOT_DONE
    again = table.admitted(operation)
    table.settled(again, table.execute(again))
    assert delta.data_files(old) == delta.live_files(old)
    assert delta.facts(spark, old) == facts
    assert table.execute(table.admitted(again)) == {"already_done": True}
    assert isinstance(table.wants("vacuum"), Skip)
