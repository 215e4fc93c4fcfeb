# SPDX-License-Identifier: Apache-2.0
"""Which indices of a Lance table are worth optimising, decided from its manifest."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pytest

from lakehand.formats.lance.snapshot import Fragment, coverage_of
from lakehand.spi import Skip, TableProcess
from tests import lance_tables
from tests.formats.lance.runtime import harness

ACTION = "optimize-indices"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows in 4 fragments that all indices cover, and 30 in 3 that none does."""
    path = lance_tables.make_vectors(tmp_path_factory.mktemp("lance") / "t")
    for number in range(3):
        lance_tables.append_vectors(path, 1000 + number * 10)
    return path


def test_rows_that_indices_do_not_cover_are_worth_it_from_a_share(path: Path) -> None:
    wanted = harness(path, {"lance.optimize-indices.unindexed-share": "0.05"}).wants(ACTION)

    assert isinstance(wanted, TableProcess)
    assert wanted.job == "lance.optimize_indices"
    assert wanted.reason.startswith("4 of 4 indices are worth optimising: id_idx has 1 part and does not cover ")
    assert "vector_idx has 1 part and does not cover 30 of 430 rows (3 of 7 fragments)" in wanted.reason


def test_rows_that_indices_do_not_cover_are_worth_it_from_a_number(path: Path) -> None:
    few = {"lance.optimize-indices.unindexed-share": "1", "lance.optimize-indices.unindexed-rows": "31"}
    assert isinstance(harness(path, few).wants(ACTION), Skip)
    assert isinstance(harness(path, {**few, "lance.optimize-indices.unindexed-rows": "30"}).wants(ACTION), TableProcess)


def test_a_few_rows_wait_for_more_and_the_reason_has_their_number(path: Path) -> None:
    assert harness(path, {}).wants(ACTION) == Skip(
        reason="id_idx has 1 part and does not cover 30 of 430 rows (3 of 7 fragments), the most of 4 indices; "
        "worth it from 10000 rows, 10% or more than 10 parts"
    )


def test_a_person_gets_every_index_that_misses_a_row(path: Path) -> None:
    subject = harness(path, {})

    parameters: Any = subject.admitted(subject.asked(ACTION)).process.parameters

    assert [(one["name"], one["rows"], one["merge"]) for one in parameters["indices"]] == [
        (name, 30, False) for name in ("id_idx", "note_idx", "v_idx", "vector_idx")
    ]
    assert parameters["newest_fragment"] == 6


def test_more_rows_or_bytes_than_the_driver_takes_are_left_with_the_reason(path: Path) -> None:
    share = {"lance.optimize-indices.unindexed-share": "0.05"}
    skip = harness(path, {**share, "lance.optimize-indices.max-rows": "29"}).wants(ACTION)
    assert isinstance(skip, Skip)
    assert "vector_idx is left: 30 rows are more than 29" in skip.reason

    wanted = harness(path, {**share, "lance.optimize-indices.max-bytes": "1"}).wants(ACTION)

    assert wanted.reason.startswith("1 of 4 indices are worth optimising: vector_idx "), "it only gets one more part"
    assert "id_idx is left: " in wanted.reason


def test_an_index_of_many_parts_is_merged_unless_it_is_too_large(path: Path, tmp_path: Path) -> None:
    wanted = harness(path, {"lance.optimize-indices.max-parts": "1"}).wants(ACTION)
    assert isinstance(wanted, Skip), "an index of one part has nothing to merge"
    lance.dataset(str(path)).optimize.optimize_indices(index_names=["vector_idx"])

    subject = harness(path, {"lance.optimize-indices.max-parts": "1"})
    wanted = subject.wants(ACTION)

    assert "vector_idx has 2 parts and does not cover 0 of 430 rows" in wanted.reason
    assert isinstance(wanted, TableProcess)
    parameters: Any = subject.admitted(subject.stored(wanted)).process.parameters
    [chosen] = parameters["indices"]
    assert chosen == {"name": "vector_idx", "merge": True, "rows": 0, "parts": 2}
    small = {"lance.optimize-indices.max-parts": "1", "lance.optimize-indices.max-bytes": "1"}
    assert "vector_idx is left: " in harness(path, small).wants(ACTION).reason


def test_a_table_without_an_index_needs_nothing(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=2)
    assert harness(path).wants(ACTION) == Skip(reason="the table has 0 indices")


def test_an_old_index_that_does_not_say_what_it_covers_is_left_alone() -> None:
    part = SimpleNamespace(fragment_ids=None)
    index = SimpleNamespace(name="old", index_type="IVF_PQ", segments=[part], total_size_bytes=None)
    fragment = Fragment(id=1, rows=10, deleted=1, sizes=(1,), has_deletions=True)

    found = coverage_of(index, [fragment])

    assert (found.is_known, found.rows, found.bytes) == (False, 9, 0)
