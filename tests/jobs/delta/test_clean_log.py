# SPDX-License-Identifier: Apache-2.0
"""Cleaning up the logs of real tables: exactly what was listed goes, and what is left can be read."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.delta import clean_log
from lakehand.jobs.job import Job
from lakehand.jobs.safety import BelowFloor, SafetyError
from lakehand.spi import Finding, Remedy, Skip
from lakehand.testing.harness import PluginHarness
from tests import delta_tables as delta
from tests.jobs.delta.conftest import BOTH_POLICIES, HarnessFor
from tests.jobs.delta.test_checkpoint import execute, state
from tests.jobs.delta.test_crashes import admitted
from tests.kit.interruptions import Killed, die
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
KEPT = 4  # the newest old version with a checkpoint


@pytest.fixture
def table(old_log: Path, harness_for: HarnessFor) -> PluginHarness:
    return harness_for(old_log, clean_log__min_files="1")


def log_files(path: Path) -> set[Path]:
    return {file for file in delta.log(path).rglob("*") if file.is_file() and not file.name.startswith(".")}


def versions(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in delta.log(path).glob("*.json") if file.stem.isdigit())


def rows_at(spark: SparkSession, path: Path, version: int) -> int:
    return spark.read.format("delta").option("versionAsOf", version).load(str(path)).count()


@BOTH_POLICIES
def test_exactly_what_was_listed_goes_and_what_is_left_can_be_read(
    spark: SparkSession, old_log: Path, table: PluginHarness
) -> None:
    facts, before, files = delta.facts(spark, old_log), state(old_log), log_files(old_log)
    listed = table.finish(table.asked("clean-log", dry_run=True)).result
    odd = Job(spark.newSession(), {**table.history[0].process.parameters, "dry_run": "no"})
    assert job_called("delta.clean_log")(odd)["would_delete"] == listed["would_delete"], "only a plain false deletes"
    assert log_files(old_log) == files

    done = table.serve("clean-log")

    gone = {Path(str(path)) for path in listed["would_delete"]}  # type: ignore[union-attr]
    assert files - log_files(old_log) == gone
    assert {file.name[:20] for file in gone if file.parent.name == "_delta_log"} == {f"{v:020d}" for v in range(KEPT)}
    sidecars = [file for file in files if file.parent.name == "_sidecars"]
    assert len([file for file in gone if file.parent.name == "_sidecars"]) == (1 if sidecars else 0)
    assert done.reason.startswith(f"the oldest version that can be read is {KEPT} now; {len(gone)} files of the log")
    assert (done.result["deleted_files"], done.result["changed"]) == (len(gone), True)
    delta.forget(spark)
    assert (delta.facts(spark, old_log), state(old_log)) == (facts, before)
    assert rows_at(spark, old_log, KEPT) == KEPT * delta.ROWS_EACH
    with pytest.raises(Exception, match=r"DELTA_VERSION_NOT_FOUND|Cannot time travel"):
        rows_at(spark, old_log, KEPT - 1)
    assert isinstance(table.wants("clean-log"), Skip)


@pytest.mark.parametrize("words", ["deleted 3", *long_values("deleting", "deleted")])
def test_a_clean_up_that_is_killed_hurts_no_reader_and_is_finished(
    spark: SparkSession, old_log: Path, table: PluginHarness, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_log, "BATCH", 1000 if words == "deleted" else 1)
    facts, operation = delta.facts(spark, old_log), admitted(table, "clean-log")

    with pytest.raises(Killed):
        execute(table, operation, **{words: die})

    delta.forget(spark)
    assert delta.facts(spark, old_log) == facts
    verdict = table.verdict(operation, {})
    if words == "deleted":  # all of it, and nobody was told
        assert (verdict.finding, versions(old_log)[0]) == (Finding.DONE, KEPT)
        return
    assert verdict.finding is Finding.NOT_DONE
    again = table.admitted(operation)
    table.settled(again, execute(table, again))
    assert versions(old_log)[0] == KEPT
    assert delta.facts(spark, old_log) == facts


@pytest.mark.long
def test_a_writer_that_commits_and_cleans_up_meanwhile_is_in_nobodys_way(
    spark: SparkSession, old_log: Path, table: PluginHarness
) -> None:
    operation = admitted(table, "clean-log")

    # With version 6 Delta writes a checkpoint, and cleans up.
    result = execute(table, operation, deleting=lambda: delta.append(spark, old_log, number=6))

    done = table.settled(operation, result)
    assert (done.result["oldest"], versions(old_log)) == (KEPT, [4, 5, 6])
    assert delta.facts(spark, old_log)[0] == 6 * delta.ROWS_EACH


LATER = {
    "it keeps its log": ("'delta.enableExpiredLogCleanup' = 'false'", "enableExpiredLogCleanup is false"),
    "it keeps its log for longer": ("'delta.logRetentionDuration' = 'interval 20 days'", "younger than the retention"),
}


@pytest.mark.parametrize("change", ["it keeps its log for longer", *long_values("it keeps its log")])
def test_what_the_table_says_right_before_the_deletion_counts(
    spark: SparkSession, old_log: Path, table: PluginHarness, change: str
) -> None:
    (setting, why), operation, files = LATER[change], admitted(table, "clean-log"), log_files(old_log)

    with pytest.raises(SafetyError, match=why) as refused:
        execute(
            table,
            operation,
            deleting=lambda: spark.sql(f"ALTER TABLE {delta.quoted(old_log)} SET TBLPROPERTIES ({setting})"),
        )

    assert table.failure(operation, refused.value).remedy is Remedy.FATAL
    assert files <= log_files(old_log)


def test_nothing_goes_if_the_checkpoint_that_would_be_left_cannot_be_read(
    spark: SparkSession, old_log: Path, table: PluginHarness
) -> None:
    operation, files = admitted(table, "clean-log"), log_files(old_log)
    for file in files:
        if f"{KEPT:020d}.checkpoint" in file.name:
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
            file.write_bytes(file.read_bytes()[:-30])

    with pytest.raises(Exception, match=r"."):
        execute(table, operation)

    assert log_files(old_log) == files


DAY = 86_400_000


ODD: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"older_than": 6 * DAY}, BelowFloor), ({"older_than": None}, SafetyError), ({"older_than": "0"}, SafetyError),
    ({"keep_from": 5}, SafetyError), ({"keep_from": 3}, SafetyError), ({"keep_from": 0}, BelowFloor),
    ({"keep_from": "4"}, BelowFloor), ({"keep_from": 99}, SafetyError), ({"operation_tag": None}, SafetyError),
]  # fmt: skip


def test_odd_parameters_given_straight_to_the_job_are_refused(
    spark: SparkSession, old_log: Path, table: PluginHarness
) -> None:
    """``older_than``: so many milliseconds ago."""
    sound, files = admitted(table, "clean-log").process.parameters, log_files(old_log)
    session, now = spark.newSession(), int(table.now().timestamp() * 1000)
    for odd, error in ODD:
        given = {"older_than": now - odd["older_than"]} if isinstance(odd.get("older_than"), int) else odd
        with pytest.raises(error):
            job_called("delta.clean_log")(Job(session, {**sound, **given}))
    assert log_files(old_log) == files


def test_a_link_that_is_made_in_the_middle_leads_no_deletion_out(
    old_log: Path, table: PluginHarness, tmp_path: Path
) -> None:
    victim, operation = tmp_path / "victim.json", admitted(table, "clean-log")
    victim.write_text("somebody else's")

    def swap() -> None:
        (delta.log(old_log) / f"{1:020d}.json").unlink()
        (delta.log(old_log) / f"{1:020d}.json").symlink_to(victim)

    with pytest.raises(OutsideTable, match=f"is a link to {victim}"):
        execute(table, operation, deleting=swap)

    assert victim.exists()
    assert (delta.log(old_log) / f"{0:020d}.json").exists()
