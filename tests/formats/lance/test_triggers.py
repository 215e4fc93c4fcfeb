# SPDX-License-Identifier: Apache-2.0
"""What a Lance table needs, decided from its metadata, with its numbers."""

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


def test_many_small_fragments_are_merged(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)

    wanted = harness(path, {}).wants("compact")

    assert isinstance(wanted, TableProcess)
    assert wanted.job == "lance.compact"
    assert wanted.reason.startswith("12 of 12 fragments are under 786432 rows and can be merged: ")
    assert wanted.reason.endswith(" KB to rewrite")


def test_a_few_small_fragments_wait_for_more(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=9)

    assert harness(path).wants("compact") == Skip(
        reason="9 of 9 fragments can be merged: 10 make it worth it; none has more than 10 % of its rows deleted"
    )
    assert isinstance(harness(path, {"lance.compact.min-fragments": "9"}).wants("compact"), TableProcess)


def test_a_small_fragment_without_an_adjacent_small_one_is_no_candidate(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=300)
    for number in range(1, 12):
        lance_tables.append(path, number * 1000, 10 if number % 2 else 300)

    assert isinstance(skip := harness(path).wants("compact"), Skip)
    assert skip.reason.startswith("0 of 12 fragments can be merged")


def test_nearly_full_fragments_are_left_alone(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12, each=230)

    assert isinstance(skip := harness(path).wants("compact"), Skip)
    assert skip.reason.startswith("0 of 12 fragments can be merged")


def test_a_large_fragment_is_not_dragged_along_for_a_handful_of_rows(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=200_000)
    for number in range(12):
        lance_tables.append(path, 200_000 + number, 1)

    assert isinstance(skip := harness(path, {}).wants("compact"), Skip)
    assert "KB are not worth rewriting the " in skip.reason
    assert isinstance(harness(path, {"lance.compact.min-fragments": "2"}).wants("compact"), Skip)


def test_deleted_rows_make_even_one_fragment_worth_a_rewrite(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=100)
    lance_tables.delete(path, "id < 10")
    assert isinstance(harness(path).wants("compact"), Skip), "ten of a hundred is not more than a tenth"
    lance_tables.delete(path, "id < 11")

    wanted = harness(path).wants("compact")

    assert wanted.reason.startswith(
        "1 of 1 fragments have more than 10 % of their rows deleted (11 rows): 1 of 1 fragments to rewrite"
    )
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


def test_old_versions_that_nothing_holds_are_cleaned(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=13, hours=23), up_to=9)
    assert harness(path).wants("clean-versions") == Skip(
        reason="0 of 12 versions are older than 14d and held by nothing; 1 make it worth it"
    )
    lance_tables.make_older(path, timedelta(hours=2), up_to=9)
    lance.dataset(str(path)).tags.create("kept", 3)

    wanted = harness(path).wants("clean-versions")

    assert isinstance(wanted, TableProcess)
    assert wanted.reason == "8 of 12 versions are older than 14d and held by nothing"
    keeping = harness(path, {"lance.clean-versions.retain-versions": "12"}).wants("clean-versions")
    assert isinstance(keeping, Skip)
    assert keeping.reason.endswith("1 held by tags and branches")


@pytest.mark.parametrize("action", ["compact", "clean-versions"])
def test_an_action_can_be_switched_off(action: str, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=20))

    assert harness(path, {f"lance.{action}.enabled": "false"}).wants(action) == Skip(
        reason=f"lance.{action}.enabled is false (from table)"
    )


def test_a_run_that_changed_nothing_is_followed_by_a_pause(tmp_path: Path) -> None:
    subject = harness(lance_tables.make_table(tmp_path / "t", fragments=12))
    wanted = subject.wants("compact")
    assert isinstance(wanted, TableProcess)
    ended = replace(subject.stored(wanted), status=Status.SUCCEEDED, result={"changed": False})
    subject.remember(replace(ended, finished_at=subject.now()))

    assert "found nothing to change" in subject.wants("compact").reason


@pytest.mark.parametrize("value", ["-1", "nan", "soon", "0", "1209600"])
def test_a_senseless_age_is_refused(value: str, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    assert harness(path, {"lance.clean-versions.max-age": value}).wants("clean-versions") == Skip(
        reason=f"lance.clean-versions.max-age is {value!r} (from table): use a duration such as 7d, 36h or 90s"
    )
