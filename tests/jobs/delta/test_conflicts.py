# SPDX-License-Identifier: Apache-2.0
"""A writer commits in the middle of our rewrite, and we in the middle of a writer's: nothing is lost either way."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Finding, Remedy, Skip, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import delta_tables as delta
from tests.jobs.delta.conftest import HarnessFor
from tests.jobs.delta.meddlers import elsewhere, meddling

pytestmark = pytest.mark.spark


def appending(spark: SparkSession, path: Path) -> Callable[[], None]:
    return elsewhere(lambda: delta.append(spark.newSession(), path, number=50))


def deleting(spark: SparkSession, path: Path) -> Callable[[], None]:
    return elsewhere(lambda: delta.delete(spark.newSession(), path, "id % 10 = 7"))


@pytest.mark.long
@pytest.mark.parametrize("action", ["optimize", "purge"])
def test_an_append_in_the_middle_of_our_rewrite_is_kept(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor, action: str
) -> None:
    before = delta.facts(spark, spoiled)
    table = harness_for(spoiled)

    with meddling(spark, appending(spark, spoiled)):
        done = table.serve(action)

    rows, total, _ = delta.facts(spark, spoiled)
    added = range(50 * delta.ROWS_EACH, 51 * delta.ROWS_EACH)
    assert (rows, total) == (before[0] + len(added), before[1] + 3 * sum(added))
    assert done.result["rows_in"] == done.result["rows_out"]


def test_a_delete_in_the_middle_of_our_rewrite_wins_and_we_retry(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(spoiled)
    operation = table.admitted(table.stored(trigger(table)))

    with meddling(spark, deleting(spark, spoiled)), pytest.raises(Exception, match="DELTA_CONCURRENT") as lost:
        table.execute(operation)

    right = delta.facts(spark, spoiled)
    assert right[0] == 640
    assert table.verdict(operation, {"causes": ["x"]}).finding is Finding.NOT_DONE
    failure = table.failure(operation, lost.value)
    assert (failure.reason, failure.remedy) == ("write-conflict", Remedy.RETRY)
    assert failure.delay is not None
    again = table.finish(operation)
    assert again.result["rows_out"] == 640
    assert delta.facts(spark, spoiled) == right
    assert delta.operations(spoiled).count("OPTIMIZE") == 1


@pytest.mark.long
def test_a_rewrite_in_the_middle_of_an_append_harms_nobody(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(spoiled)

    with meddling(spark, elsewhere(lambda: keep(table.serve("optimize")))):
        delta.append(spark.newSession(), spoiled, number=50)

    assert delta.facts(spark, spoiled)[0] == 720 + delta.ROWS_EACH
    assert delta.operations(spoiled)[-2:] == ["OPTIMIZE", "WRITE"]


@pytest.mark.long
def test_a_writer_whose_delete_loses_to_our_rewrite_is_not_starved(
    spark: SparkSession, spoiled: Path, harness_for: HarnessFor
) -> None:
    table = harness_for(spoiled)
    writer = spark.newSession()

    with (
        meddling(spark, elsewhere(lambda: keep(table.serve("optimize")))),
        pytest.raises(Exception, match="DELTA_CONCURRENT"),
    ):
        delta.delete(writer, spoiled, "id % 10 = 7")

    assert delta.facts(spark, spoiled)[0] == 720
    delta.delete(writer, spoiled, "id % 10 = 7")
    assert delta.facts(spark, spoiled)[0] == 640
    assert isinstance(table.wants("optimize"), Skip), "the writer's next attempt meets nobody"
    assert isinstance(table.wants("purge"), Skip)


def trigger(table: PluginHarness) -> TableProcess:
    answer = table.wants("optimize")
    assert isinstance(answer, TableProcess), answer
    return answer


def keep(_: object) -> None:
    """A change has no answer."""
