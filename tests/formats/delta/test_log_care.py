# SPDX-License-Identifier: Apache-2.0
"""When a checkpoint is written and when a log is cleaned up, and what shows that it was done."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehand.spi import Finding, Skip, Status, TableProcess
from lakehand.testing.harness import PluginHarness
from tests.formats.delta.logs import LogTable, add, at, metadata, protocol
from tests.kit.sentences import Sentences

SIZE = re.compile(r"[\d.]+ K?B")
SHORT = {"logRetentionDuration": "interval 1 day"}


def long_log(path: Path, commits: int = 25, **configuration: str) -> LogTable:
    """Version 0 and so many more, all of yesterday."""
    table = LogTable(path / "t", configuration=configuration)
    for _ in range(commits):
        table.commit()
    return table


def test_readers_of_a_long_log_are_given_a_checkpoint(tmp_path: Path, sentences: Sentences) -> None:
    table, twenty = long_log(tmp_path), {"checkpoint__commits": "20"}
    without = table.wanted("checkpoint", **twenty).reason
    sentences.check("a long log without a checkpoint", without, commits=26, opened=26)
    table.checkpoint()
    sentences.check("the newest version has a checkpoint", table.skipped("checkpoint", **twenty), version=25)
    for _ in range(19):
        table.commit()
    few = {"commits": 19, "version": 25, "opened": 19, "needed": 20}
    sentences.check("few commits since a checkpoint", table.skipped("checkpoint", **twenty), **few)
    table.commit()
    many = {"commits": 20, "version": 25, "opened": 20}
    sentences.check("many commits since a checkpoint", table.wanted("checkpoint", **twenty).reason, **many)


@pytest.mark.parametrize(("interval", "least"), [(None, 100), ("10", 100), ("51", 102), ("1000", 2000), ("odd", 100)])
def test_writers_that_are_to_make_checkpoints_are_left_time_for_them(
    tmp_path: Path, interval: str | None, least: int, sentences: Sentences
) -> None:
    table = long_log(tmp_path, 1, **({"checkpointInterval": interval} if interval else {}))
    few = {"commits": 2, "opened": 2, "needed": least}
    sentences.check("a short log without a checkpoint", table.skipped("checkpoint"), **few)
    for _ in range(98 if least == 100 else 0):
        table.commit()
    if least == 100:
        reason = table.wanted("checkpoint").reason
        sentences.check("a long log without a checkpoint", reason, commits=100, opened=100)


@pytest.mark.parametrize("lie", ['{"version": 99}', '{"version": -1}', '{"version": "25"}', "[1]", "garbage", None])
def test_a_hint_that_leads_nowhere_is_written_anew(tmp_path: Path, lie: str | None, sentences: Sentences) -> None:
    table = long_log(tmp_path)
    table.checkpoint()
    hint = table.path / "_delta_log" / "_last_checkpoint"
    hint.unlink() if lie is None else hint.write_text(lie)

    wanted = table.wanted("checkpoint", checkpoint__commits="20")

    sentences.check("the hint leads nowhere", wanted.reason, version=25, commits=26)
    assert table.harness().factory.verify(table.harness().runtime(), wanted, {}).finding is Finding.NOT_DONE


def verdict_of(table: LogTable, before: int) -> Any:
    process = TableProcess(action="checkpoint", parameters={"before": {"version": before}})  # type: ignore[arg-type]
    return table.harness().factory.verify(table.harness().runtime(), process, {})


def test_a_checkpoint_that_can_be_read_and_is_named_is_the_proof(tmp_path: Path, sentences: Sentences) -> None:
    table = long_log(tmp_path, commits=3)
    none = verdict_of(table, 3)
    assert none.finding is Finding.NOT_DONE
    sentences.check("no checkpoint of the version", none.reason, version=3)
    table.checkpoint(hint=1)
    hidden = verdict_of(table, 3)
    assert hidden.finding is Finding.NOT_DONE
    sentences.check("the hint does not lead to the checkpoint", hidden.reason, version=3)
    table.checkpoint()
    assert verdict_of(table, 3).finding is Finding.DONE
    table.commit()
    sentences.check("the checkpoint can be read", verdict_of(table, 3).reason, version=3, later=1)
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


def test_a_log_goes_up_to_the_newest_checkpoint_that_is_past_the_retention(
    tmp_path: Path, sentences: Sentences
) -> None:
    table = old_log(tmp_path)
    needed = wanted(table)
    assert needed.parameters["keep_from"] == 4
    found = {"files": 4, "size": SIZE, "commits": 4, "version": 4, "retain": "30d"}
    sentences.check("the log is old", needed.reason, **found)
    assert needed.parameters["older_than"] == at(30.5), "midnight, as Delta has it"
    few = skipped(table, clean_log__min_files="5")
    sentences.check("little of the log is old", few, **found, needed=5)
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
    tmp_path: Path, configuration: dict[str, str], settings: dict[str, str], keep_from: int | None, sentences: Sentences
) -> None:
    table = old_log(tmp_path, configuration)
    if keep_from is None:
        sentences.check("nothing before an old checkpoint", skipped(table, **settings), retain="60d")
    else:
        assert wanted(table, **settings).parameters["keep_from"] == keep_from


def touch(table: LogTable, pattern: str, *, days_ago: float) -> None:
    for file in (table.path / "_delta_log").glob(pattern):
        os.utime(file, (at(days_ago) / 1000, at(days_ago) / 1000))


def test_what_is_young_by_its_file_or_by_its_commit_stays(tmp_path: Path, sentences: Sentences) -> None:
    touched = old_log(tmp_path / "a", SHORT)
    touch(touched, "*2.json", days_ago=1)
    sentences.check("nothing before an old checkpoint", skipped(touched), retain="7d")
    late = old_log(tmp_path / "b", SHORT)
    touch(late, "*4.checkpoint.*", days_ago=1)  # written long after its version, and by now before another one
    assert wanted(late, clean_log__retain="25d").parameters["keep_from"] == 4
    assert wanted(late).parameters["keep_from"] == 4
    copied = old_log(tmp_path / "c", SHORT)
    copied.write(copied.file(9), {"commitInfo": {"timestamp": at(1), "operation": "WRITE"}}, days_ago=20)
    assert wanted(copied).parameters["keep_from"] == 4


def test_the_log_of_a_table_that_keeps_it_is_kept(tmp_path: Path, sentences: Sentences) -> None:
    table = old_log(tmp_path, {**SHORT, "enableExpiredLogCleanup": "false"})
    why = skipped(table)
    sentences.check("the table keeps its log", why, key="delta.enableExpiredLogCleanup")
    asked = table.harness().asked("clean-log", confirm=True)
    assert getattr(table.harness().factory.admit(table.harness().runtime(), asked), "message", "") == why


def test_a_log_with_a_gap_and_one_without_checkpoints_are_left_alone(tmp_path: Path, sentences: Sentences) -> None:
    table = old_log(tmp_path, SHORT)
    table.file(7).unlink()
    sentences.check("a gap in the log", skipped(table), version=7)
    plain = LogTable(tmp_path / "plain", days_ago=40)
    found = {"commits": 1, "checkpoints": 0, "oldest": "2026-10-06"}
    sentences.check("a log without checkpoints", skipped(plain), **found)
    odd = old_log(tmp_path / "odd", {"logRetentionDuration": "for ever"})
    sentences.check("the log's retention is not an interval", skipped(odd), value="'for ever'")


def protected_log(path: Path, version: int) -> LogTable:
    table = old_log(path)
    features = protocol(1, 7, ["checkpointProtection"])
    setting = metadata({**SHORT, "requireCheckpointProtectionBeforeVersion": str(version)})
    table.commit(features, setting)
    return table


def test_protected_checkpoints_go_all_at_once_or_not_at_all(tmp_path: Path, sentences: Sentences) -> None:
    found = {"protected": 10, "old": 9}
    sentences.check("protected checkpoints", skipped(protected_log(tmp_path / "a", 10)), **found)
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


def test_files_that_are_gone_and_an_oldest_version_that_can_be_read_are_the_proof(
    tmp_path: Path, sentences: Sentences
) -> None:
    table = old_log(tmp_path, SHORT)
    harness = table.harness(clean_log__min_files="10")
    operation = admitted(harness)
    sentences.check("files of the log are left", harness.verdict(operation, {}).reason, files=10, version=9)
    for version in range(8):
        table.file(version).unlink()

    half_way = harness.verdict(operation, {})
    again = harness.admitted(operation)

    assert half_way.finding is Finding.NOT_DONE
    sentences.check("files of the log are left", half_way.reason, files=2, version=9)
    assert again.process.parameters["expired"] == 2, "what was begun is finished, however little is left"
    table.file(8).unlink()
    next((table.path / "_delta_log").glob("*4.checkpoint.*")).unlink()
    verdict = harness.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["oldest"], verdict.numbers["files_removed"]) == (Finding.DONE, 9, 10)
    assert harness.verdict(operation, {"deleted_files": 0}).numbers["changed"] is False
    harness.history.clear()
    assert isinstance(harness.wants("clean-log"), Skip)
    next((table.path / "_delta_log").glob("*9.checkpoint.*")).write_text(json.dumps({"protocol": {}}))
    sentences.check("a checkpoint that is not whole", harness.verdict(operation, {}).reason, version=9)
