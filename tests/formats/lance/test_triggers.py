# SPDX-License-Identifier: Apache-2.0
"""What a Lance table needs, decided from its metadata, with its numbers."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakehand.formats.lance.table import LanceFormat
from lakehand.spi import Skip, Status, TableProcess, TableReference
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.kit.sentences import Sentences

SIZE = re.compile(r"[\d.]+ [KM]B")


def test_many_small_fragments_are_merged(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)

    wanted = harness(path, {}).wants("compact")

    assert isinstance(wanted, TableProcess)
    assert wanted.job == "lance.compact"
    found = {"small": 12, "fragments": 12, "under": 786432, "size": SIZE}
    sentences.check("small fragments", wanted.reason, **found)


def test_a_few_small_fragments_wait_for_more(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=9)

    waiting = harness(path).wants("compact")
    assert isinstance(waiting, Skip)
    found = {"small": 9, "fragments": 9, "needed": 10, "share": "10 %"}
    sentences.check("few small fragments", waiting.reason, **found)
    assert isinstance(harness(path, {"lance.compact.min-fragments": "9"}).wants("compact"), TableProcess)


def test_a_small_fragment_without_an_adjacent_small_one_is_no_candidate(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=300)
    for number in range(1, 12):
        lance_tables.append(path, number * 1000, 10 if number % 2 else 300)

    skip = harness(path).wants("compact")
    assert isinstance(skip, Skip)
    found = {"small": 0, "fragments": 12, "needed": 10, "share": "10 %"}
    sentences.check("few small fragments", skip.reason, **found)


def test_nearly_full_fragments_are_left_alone(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12, each=230)

    skip = harness(path).wants("compact")
    assert isinstance(skip, Skip)
    found = {"small": 0, "fragments": 12, "needed": 10, "share": "10 %"}
    sentences.check("few small fragments", skip.reason, **found)


def test_a_large_fragment_is_not_dragged_along_for_a_handful_of_rows(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=200_000)
    for number in range(12):
        lance_tables.append(path, 200_000 + number, 1)

    skip = harness(path, {}).wants("compact")
    assert isinstance(skip, Skip)
    sentences.check("few small rows beside a large fragment", skip.reason, small=SIZE, large=SIZE)
    assert isinstance(harness(path, {"lance.compact.min-fragments": "2"}).wants("compact"), Skip)


def test_deleted_rows_make_even_one_fragment_worth_a_rewrite(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=100)
    lance_tables.delete(path, "id < 10")
    assert isinstance(harness(path).wants("compact"), Skip), "ten of a hundred is not more than a tenth"
    lance_tables.delete(path, "id < 11")

    wanted = harness(path).wants("compact")

    found = {"fragments": 1, "of": 1, "share": "10 %", "deleted": 11, "rewritten": 1, "all": 1, "size": SIZE}
    sentences.check("many deleted rows", wanted.reason, **found)
    assert isinstance(harness(path, {"lance.compact.deleted-rows-share": "0.5"}).wants("compact"), Skip)


def test_the_target_in_the_tables_own_manifest_counts_unless_a_property_is_set(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance.dataset(str(path)).update_config({"lance.compaction.target_rows_per_fragment": "5"})

    assert isinstance(harness(path, {}).wants("compact"), Skip)
    assert isinstance(harness(path, {"lance.compact.target-rows": "300"}).wants("compact"), TableProcess)


def test_wide_rows_make_smaller_targets_in_steps_of_two(tmp_path: Path) -> None:
    wide = pa.table({"id": list(range(100)), "picture": [b"x" * 9000 + bytes([n]) for n in range(100)]})
    lance.write_dataset(wide, str(tmp_path / "t"), data_storage_version="2.0")
    snapshot = LanceFormat().inspect(TableReference(location=str(tmp_path / "t")))
    each = snapshot.bytes / 100

    targets = [snapshot.target_rows(1_000_000, int(each * rows)) for rows in (2_000_000, 5_000, 4_500, 0.5)]

    assert targets == [1_000_000, 4096, 4096, 1]


def test_old_versions_that_nothing_holds_are_cleaned(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=13, hours=23), up_to=9)
    waiting = harness(path).wants("clean-versions")
    assert isinstance(waiting, Skip)
    sentences.check("no old versions", waiting.reason, old=0, versions=12, age="14d", needed=1)
    lance_tables.make_older(path, timedelta(hours=2), up_to=9)
    lance.dataset(str(path)).tags.create("kept", 3)

    wanted = harness(path).wants("clean-versions")

    assert isinstance(wanted, TableProcess)
    sentences.check("old versions", wanted.reason, old=8, versions=12, age="14d")
    keeping = harness(path, {"lance.clean-versions.retain-versions": "12"}).wants("clean-versions")
    assert isinstance(keeping, Skip)
    sentences.check("old versions are held", keeping.reason, old=0, versions=12, needed=1, held=1)


@pytest.mark.parametrize("action", ["compact", "clean-versions"])
def test_an_action_can_be_switched_off(action: str, tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=20))

    key = f"lance.{action}.enabled"
    answer = harness(path, {key: "false"}).wants(action)
    assert isinstance(answer, Skip)
    assert answer.look_again is None
    sentences.check("the action is off", answer.reason, key=key, source="table")


def test_a_run_that_changed_nothing_is_followed_by_a_pause(tmp_path: Path, sentences: Sentences) -> None:
    subject = harness(lance_tables.make_table(tmp_path / "t", fragments=12))
    wanted = subject.wants("compact")
    assert isinstance(wanted, TableProcess)
    ended = replace(subject.stored(wanted), status=Status.SUCCEEDED, result={"changed": False})
    subject.remember(replace(ended, finished_at=subject.now()))

    sentences.check("the last run changed nothing", subject.wants("compact").reason, operation=1, next="6 h")


@pytest.mark.parametrize("value", ["-1", "nan", "soon", "0", "1209600"])
def test_a_senseless_age_is_refused(value: str, tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    key = "lance.clean-versions.max-age"
    answer = harness(path, {key: value}).wants("clean-versions")
    assert isinstance(answer, Skip)
    sentences.check("no duration in a table", answer.reason, key=key, value=repr(value))
