# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of real tables: classic, in parts and with sidecars, whatever dies or writes beside us."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat
from lakehand.spi import Finding, Skip, TableReference
from lakehand.testing.harness import PluginHarness
from tests import delta_tables as delta
from tests.jobs.delta.conftest import BOTH_POLICIES, HarnessFor
from tests.jobs.delta.test_crashes import admitted
from tests.kit.interruptions import Hook, Interruptions, Killed, die, run_job
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
NEWEST, ROWS = 5, 5 * delta.ROWS_EACH


@pytest.fixture
def table(long_log: Path, harness_for: HarnessFor) -> PluginHarness:
    """With a log that Delta's own call for a checkpoint would shorten."""
    return harness_for(long_log, checkpoint__commits="4")


def execute(table: PluginHarness, operation: Any, **hooks: Hook) -> dict[str, Any]:
    """With hooks by the first word of a phase."""
    return run_job(table.session, operation.process.job, operation.process.parameters, Interruptions(hooks=dict(hooks)))


def hint(path: Path) -> int:
    return int(json.loads((delta.log(path) / "_last_checkpoint").read_text())["version"])


def checkpoints(path: Path) -> list[str]:
    return sorted(file.name[:20] for file in delta.log(path).glob("[0-9]*.checkpoint.*"))


def state(path: Path) -> Any:
    """As our reader finds it, from the newest checkpoint on."""
    found = DeltaFormat().inspect(TableReference(location=str(path)))
    protocol = found.state.protocol
    versions = protocol["minReaderVersion"], protocol["minWriterVersion"]
    return found.identity, found.schema, dict(found.configuration), versions, found.features, dict(found.files)


@BOTH_POLICIES
def test_a_long_log_gets_a_checkpoint_and_nothing_else_changes(
    spark: SparkSession, long_log: Path, table: PluginHarness
) -> None:
    before, facts, commits = state(long_log), delta.facts(spark, long_log), delta.commits(long_log)

    done = table.serve("checkpoint")

    assert done.process.reason == "6 commits and no checkpoint: a reader opens 6 files"
    assert done.reason == "version 5 has a checkpoint that can be read; 0 commits came after it"
    assert (hint(long_log), checkpoints(long_log)) == (NEWEST, [f"{NEWEST:020d}"])
    assert delta.commits(long_log) == commits, "nothing was deleted, and nothing committed"
    assert state(long_log) == before
    skipped = table.wants("checkpoint")
    assert isinstance(skipped, Skip)
    assert skipped.reason == "the newest version, 5, has a checkpoint"
    for version in range(NEWEST):  # readers need the checkpoint, and the newest commit for its time
        (delta.log(long_log) / f"{version:020d}.json").unlink()
    delta.forget(spark)
    assert delta.facts(spark, long_log) == facts


@pytest.mark.parametrize("moment", ["naming", "committed", *long_values("writing")])
def test_a_checkpoint_that_is_killed_is_finished_or_found(
    spark: SparkSession, long_log: Path, table: PluginHarness, moment: str
) -> None:
    facts, operation = delta.facts(spark, long_log), admitted(table, "checkpoint")

    with pytest.raises(Killed):
        execute(table, operation, **{moment: die})

    found = table.verdict(operation, {}).finding
    assert found is (Finding.DONE if moment == "committed" else Finding.NOT_DONE)
    again = operation if found is Finding.DONE else table.admitted(operation)
    result = execute(table, again)
    assert result["already_done"] is (moment == "committed")
    table.settled(again, result)
    assert (hint(long_log), delta.facts(spark, long_log)) == (NEWEST, facts)
    assert isinstance(table.wants("checkpoint"), Skip)


@pytest.mark.parametrize("moment", ["naming", *long_values("writing")])
def test_a_writer_that_is_faster_keeps_its_commit_its_checkpoint_and_its_hint(
    spark: SparkSession, long_log: Path, table: PluginHarness, moment: str
) -> None:
    operation = admitted(table, "checkpoint")

    result = execute(table, operation, **{moment: lambda: delta.append(spark, long_log, number=50)})

    done = table.settled(operation, result)
    assert done.reason.startswith("version 6 has a checkpoint that can be read")
    assert hint(long_log) == NEWEST + 1, "Delta makes one of every second version of this table"
    delta.forget(spark)
    assert delta.facts(spark, long_log)[0] == ROWS + delta.ROWS_EACH


@pytest.mark.long
@pytest.mark.parametrize("lie", ['{"version": 999999, "size": 5}', "garbage"])
def test_a_hint_that_lies_is_not_believed(spark: SparkSession, long_log: Path, table: PluginHarness, lie: str) -> None:
    (delta.log(long_log) / "_last_checkpoint").write_text(lie)

    table.serve("checkpoint")

    assert hint(long_log) == NEWEST
    assert delta.facts(spark, long_log)[0] == ROWS


@pytest.mark.long
@BOTH_POLICIES
def test_a_checkpoint_in_parts_is_written_where_the_engine_is_set_so(
    spark: SparkSession, long_log: Path, table: PluginHarness
) -> None:
    operation = admitted(table, "checkpoint")
    conf = {"spark.databricks.delta.checkpoint.partSize": "2"}
    result = run_job(spark, operation.process.job, operation.process.parameters, Interruptions(), conf)

    table.settled(operation, result)

    parts = [
        *delta.log(long_log).glob("*.checkpoint.0000000001.*.parquet"),
        *delta.log(long_log).glob("_sidecars/*-*.parquet"),
    ]
    assert parts
    delta.forget(spark)
    assert delta.facts(spark, long_log)[0] == ROWS
