# SPDX-License-Identifier: Apache-2.0
"""When a checkpoint is written and when a log is cleaned up, and what shows that it was done."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehand.spi import Finding, Skip, Status, TableProcess
from lakehand.testing.harness import PluginHarness
from tests.formats.delta.logs import LogTable, add, at, metadata, protocol

SHORT = {"logRetentionDuration": "interval 1 day"}


def long_log(path: Path, commits: int = 25, **configuration: str) -> LogTable:
    """Version 0 and so many more, all of yesterday."""
    table = LogTable(path / "t", configuration=configuration)
    for _ in range(commits):
        table.commit()
    return table


def test_readers_of_a_long_log_are_given_a_checkpoint(tmp_path: Path) -> None:
    table, twenty = long_log(tmp_path), {"checkpoint__commits": "20"}
    assert table.wanted("checkpoint", **twenty).reason == "26 commits and no checkpoint: a reader opens 26 files"
    table.checkpoint()
    assert table.skipped("checkpoint", **twenty) == "the newest version, 25, has a checkpoint"
    for _ in range(19):
        table.commit()
    text = "19 commits since the checkpoint of version 25: a reader opens 19 files"
    assert table.skipped("checkpoint", **twenty) == f"{text}; 20 would be worth it"
    table.commit()
    assert table.wanted("checkpoint", **twenty).reason.startswith("20 commits since the checkpoint of version 25")


@pytest.mark.parametrize(("interval", "least"), [(None, 100), ("10", 100), ("51", 102), ("1000", 2000), ("odd", 100)])
def test_writers_that_are_to_make_checkpoints_are_left_time_for_them(
    tmp_path: Path, interval: str | None, least: int
) -> None:
    table = long_log(tmp_path, 1, **({"checkpointInterval": interval} if interval else {}))
    assert (
        table.skipped("checkpoint") == f"2 commits and no checkpoint: a reader opens 2 files; {least} would be worth it"
    )
    for _ in range(98 if least == 100 else 0):
        table.commit()
    if least == 100:
        assert table.wanted("checkpoint").reason.startswith("100 commits and no checkpoint")


@pytest.mark.parametrize("lie", ['{"version": 99}', '{"version": -1}', '{"version": "25"}', "[1]", "garbage", None])
def test_a_hint_that_leads_nowhere_is_written_anew(tmp_path: Path, lie: str | None) -> None:
    table = long_log(tmp_path)
    table.checkpoint()
    hint = table.path / "_delta_log" / "_last_checkpoint"
    hint.unlink() if lie is None else hint.write_text(lie)

    wanted = table.wanted("checkpoint", checkpoint__commits="20")

    assert wanted.reason.endswith(
        "_last_checkpoint names no checkpoint that is there, so that a reader lists 26 commits"
    )
    assert table.harness().factory.verify(table.harness().runtime(), wanted, {}).finding is Finding.NOT_DONE


def verdict_of(table: LogTable, before: int) -> Any:
    process = TableProcess(action="checkpoint", parameters={"before": {"version": before}})  # type: ignore[arg-type]
    return table.harness().factory.verify(table.harness().runtime(), process, {})


def test_a_checkpoint_that_can_be_read_and_is_named_is_the_proof(tmp_path: Path) -> None:
    table = long_log(tmp_path, commits=3)
    assert verdict_of(table, 3).reason == "there is no checkpoint of version 3 or later"
    table.checkpoint(hint=1)
    assert verdict_of(table, 3).reason == "version 3 has a checkpoint, and _last_checkpoint does not lead to it"
    table.checkpoint()
    assert verdict_of(table, 3).finding is Finding.DONE
    table.commit()
    assert verdict_of(table, 3).reason == "version 3 has a checkpoint that can be read; 1 commits came after it"
    assert verdict_of(table, 4).finding is Finding.NOT_DONE
    assert verdict_of(table, 9).finding is Finding.GONE


@pytest.mark.parametrize("text", ["", "garbage\n", '{"sidecar": {"path": "x.parquet"}}\n', '{"protocol": {}}\n'])
def test_a_checkpoint_that_cannot_be_read_is_no_proof(tmp_path: Path, text: str) -> None:
    table = long_log(tmp_path, commits=1)
    table.checkpoint()
    [file] = (table.path / "_delta_log").glob("*.checkpoint.*")
    file.write_text(text)
    assert verdict_of(table, 1).finding is Finding.NOT_DONE


def old_log(path: Path, configuration: Mapping[str, str] | None = None, **more: Any) -> LogTable:
    """40 days ago versions 0 to 4, 20 days ago 5 to 9, yesterday 10 and 11; checkpoints at 4, 9 and 10."""
    table = LogTable(path / "t", [add("a", 1)], configuration=configuration or {}, days_ago=40, **more)
    for days_ago, last in ((40, 4), (20, 9), (1, 10)):
        while table.version < last:
            table.commit(days_ago=days_ago)
        table.checkpoint(days_ago=days_ago)
    table.commit()
    return table


def wanted(table: LogTable, **settings: str) -> TableProcess:
    return table.wanted("clean-log", **{"clean_log__min_files": "1", **settings})


def skipped(table: LogTable, **settings: str) -> str:
    return table.skipped("clean-log", **{"clean_log__min_files": "1", **settings})


def test_a_log_goes_up_to_the_newest_checkpoint_that_is_past_the_retention(tmp_path: Path) -> None:
    table = old_log(tmp_path)
    needed = wanted(table)
    assert needed.parameters["keep_from"] == 4
    assert needed.reason.startswith("4 files of the log with ")
    assert needed.reason.endswith(" (4 commits before version 4) are older than 30d")
    assert needed.parameters["older_than"] == at(30.5), "midnight, as Delta has it"
    assert skipped(table, clean_log__min_files="5").endswith("are older than 30d; 5 would be worth it")
    assert wanted(old_log(tmp_path / "short", SHORT)).parameters["keep_from"] == 9


@pytest.mark.parametrize(
    ("configuration", "settings", "keep_from"),
    [
        (SHORT, {"clean_log__retain": "1h"}, 9),  # the floor: a week
        (SHORT, {"clean_log__retain": "25d"}, 4),
        ({"logRetentionDuration": "interval 60 days"}, {"clean_log__retain": "7d"}, None),
        ({"logRetentionDuration": "interval 2 weeks"}, {}, 9),
    ],
)
def test_the_longest_retention_counts(
    tmp_path: Path, configuration: dict[str, str], settings: dict[str, str], keep_from: int | None
) -> None:
    table = old_log(tmp_path, configuration)
    if keep_from is None:
        assert "no checkpoint older than 60d has anything before it" in skipped(table, **settings)
    else:
        assert wanted(table, **settings).parameters["keep_from"] == keep_from


def touch(table: LogTable, pattern: str, *, days_ago: float) -> None:
    for file in (table.path / "_delta_log").glob(pattern):
        os.utime(file, (at(days_ago) / 1000, at(days_ago) / 1000))


def test_what_is_young_by_its_file_or_by_its_commit_stays(tmp_path: Path) -> None:
    touched = old_log(tmp_path / "a", SHORT)
    touch(touched, "*2.json", days_ago=1)
    assert "has anything before it" in skipped(touched)
    late = old_log(tmp_path / "b", SHORT)
    touch(late, "*4.checkpoint.*", days_ago=1)  # written long after its version, and by now before another one
    assert wanted(late, clean_log__retain="25d").parameters["keep_from"] == 4
    assert wanted(late).parameters["keep_from"] == 4
    copied = old_log(tmp_path / "c", SHORT)
    copied.write(copied.file(9), {"commitInfo": {"timestamp": at(1), "operation": "WRITE"}}, days_ago=20)
    assert wanted(copied).parameters["keep_from"] == 4


def test_the_log_of_a_table_that_keeps_it_is_kept(tmp_path: Path) -> None:
    table = old_log(tmp_path, {**SHORT, "enableExpiredLogCleanup": "false"})
    why = "the table's property delta.enableExpiredLogCleanup is not true: its log is kept"
    assert skipped(table) == why
    asked = table.harness().asked("clean-log", confirm=True)
    assert getattr(table.harness().factory.admit(table.harness().runtime(), asked), "message", "") == why


def test_a_log_with_a_gap_and_one_without_checkpoints_are_left_alone(tmp_path: Path) -> None:
    table = old_log(tmp_path, SHORT)
    table.file(7).unlink()
    assert skipped(table) == "the log has no commit 7: nothing is deleted from a log with a gap"
    plain = LogTable(tmp_path / "plain", days_ago=40)
    assert skipped(plain).startswith(
        "the log has 1 commits and 0 checkpoints, the oldest of 2026-10-06, and no checkpoint"
    )
    odd = old_log(tmp_path / "odd", {"logRetentionDuration": "for ever"})
    assert "delta.logRetentionDuration is 'for ever', which is no interval" in skipped(odd)


def protected_log(path: Path, version: int) -> LogTable:
    table = old_log(path)
    features = protocol(1, 7, ["checkpointProtection"])
    setting = metadata({**SHORT, "requireCheckpointProtectionBeforeVersion": str(version)})
    table.commit(features, setting)
    return table


def test_protected_checkpoints_go_all_at_once_or_not_at_all(tmp_path: Path) -> None:
    why = "checkpoints before version 10 are protected, and only those before 9 are past the retention"
    assert skipped(protected_log(tmp_path / "a", 10)) == why
    assert wanted(protected_log(tmp_path / "b", 9)).parameters["keep_from"] == 9


def test_what_an_unfinished_operation_may_have_committed_stays_in_the_log(tmp_path: Path) -> None:
    table = old_log(tmp_path, SHORT)
    harness = table.harness(clean_log__min_files="1")
    rewrite = TableProcess(action="optimize", job="delta.optimize", parameters={"before": {"version": 6}})  # type: ignore[arg-type]
    running = harness.remember(replace(harness.stored(rewrite), status=Status.RUNNING))
    assert harness.wants("clean-log").parameters["keep_from"] == 4  # type: ignore[union-attr]
    harness.remember(replace(running, status=Status.SUCCEEDED))
    assert harness.wants("clean-log").parameters["keep_from"] == 9  # type: ignore[union-attr]


def admitted(harness: PluginHarness) -> Any:
    process = harness.wants("clean-log")
    assert isinstance(process, TableProcess), process
    return harness.admitted(harness.stored(process))


def test_files_that_are_gone_and_an_oldest_version_that_can_be_read_are_the_proof(tmp_path: Path) -> None:
    table = old_log(tmp_path, SHORT)
    harness = table.harness(clean_log__min_files="10")
    operation = admitted(harness)
    assert harness.verdict(operation, {}).reason == "10 files of the log before version 9 are still there"
    for version in range(8):
        table.file(version).unlink()

    half_way = harness.verdict(operation, {})
    again = harness.admitted(operation)

    assert (half_way.finding, half_way.reason) == (
        Finding.NOT_DONE,
        "2 files of the log before version 9 are still there",
    )
    assert again.process.parameters["expired"] == 2, "what was begun is finished, however little is left"
    table.file(8).unlink()
    next((table.path / "_delta_log").glob("*4.checkpoint.*")).unlink()
    verdict = harness.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["oldest"], verdict.numbers["files_removed"]) == (Finding.DONE, 9, 10)
    assert harness.verdict(operation, {"deleted_files": 0}).numbers["changed"] is False
    harness.history.clear()
    assert isinstance(harness.wants("clean-log"), Skip)
    next((table.path / "_delta_log").glob("*9.checkpoint.*")).write_text(json.dumps({"protocol": {}}))
    assert harness.verdict(operation, {}).reason == "the checkpoint of version 9 has no protocol or schema"
