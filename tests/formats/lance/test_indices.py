# SPDX-License-Identifier: Apache-2.0
"""Which indices of a Lance table are worth optimising, decided from its manifest."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import pytest

from lakehand.formats.lance.snapshot import Fragment, coverage_of
from lakehand.spi import Skip, TableProcess
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.kit.sentences import Sentences

ACTION = "optimize-indices"
SIZE = re.compile(r"[\d.]+ KB")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows in 4 fragments that all indices cover, and 30 in 3 that none does."""
    path = lance_tables.make_vectors(tmp_path_factory.mktemp("lance") / "t")
    for number in range(3):
        lance_tables.append_vectors(path, 1000 + number * 10)
    return path


def test_rows_that_indices_do_not_cover_are_worth_it_from_a_share(path: Path, sentences: Sentences) -> None:
    wanted = harness(path, {"lance.optimize-indices.unindexed-share": "0.05"}).wants(ACTION)

    assert isinstance(wanted, TableProcess)
    assert wanted.job == "lance.optimize_indices"
    found = {"chosen": 4, "indices": 4, "first": "id_idx", "last": "vector_idx"}
    sentences.check("indices do not cover all rows", wanted.reason, **found)


def test_rows_that_indices_do_not_cover_are_worth_it_from_a_number(path: Path) -> None:
    few = {"lance.optimize-indices.unindexed-share": "1", "lance.optimize-indices.unindexed-rows": "31"}
    assert isinstance(harness(path, few).wants(ACTION), Skip)
    assert isinstance(harness(path, {**few, "lance.optimize-indices.unindexed-rows": "30"}).wants(ACTION), TableProcess)


def test_a_few_rows_wait_for_more_and_the_reason_has_their_number(path: Path, sentences: Sentences) -> None:
    waiting = harness(path, {}).wants(ACTION)
    assert isinstance(waiting, Skip)
    found = {"index": "id_idx", "parts": 1, "uncovered": 30, "rows": 430, "fragments": 3, "all": 7, "indices": 4}
    limits = {"needed": 10000, "share": "10%", "most": 10}
    sentences.check("indices cover nearly all rows", waiting.reason, **found, **limits)


def test_a_person_gets_every_index_that_misses_a_row(path: Path) -> None:
    subject = harness(path, {})

    parameters: Any = subject.admitted(subject.asked(ACTION)).process.parameters

    assert [(one["name"], one["rows"], one["merge"]) for one in parameters["indices"]] == [
        (name, 30, False) for name in ("id_idx", "note_idx", "v_idx", "vector_idx")
    ]
    assert parameters["newest_fragment"] == 6


def test_more_rows_or_bytes_than_the_driver_takes_are_left_with_the_reason(path: Path, sentences: Sentences) -> None:
    share = {"lance.optimize-indices.unindexed-share": "0.05"}
    skip = harness(path, {**share, "lance.optimize-indices.max-rows": "29"}).wants(ACTION)
    assert isinstance(skip, Skip)
    sentences.check("too many rows for the driver", skip.reason, share="5%", rows=430, most=29)

    wanted = harness(path, {**share, "lance.optimize-indices.max-bytes": "1"}).wants(ACTION)

    # The vectors' index only gets one more part.
    found = {"chosen": 1, "indices": 4, "index": "vector_idx", "left": "id_idx"}
    sentences.check("too many bytes for the driver", wanted.reason, **found, size=SIZE, second=SIZE, third=SIZE)


def test_an_index_of_many_parts_is_merged_unless_it_is_too_large(
    path: Path, tmp_path: Path, sentences: Sentences
) -> None:
    wanted = harness(path, {"lance.optimize-indices.max-parts": "1"}).wants(ACTION)
    assert isinstance(wanted, Skip), "an index of one part has nothing to merge"
    path = Path(shutil.copytree(path, tmp_path / "t"))  # the other tests want theirs as it is
    lance.dataset(str(path)).optimize.optimize_indices(index_names=["vector_idx"])

    subject = harness(path, {"lance.optimize-indices.max-parts": "1"})
    wanted = subject.wants(ACTION)

    sentences.check("an index of many parts", wanted.reason, index="vector_idx", parts=2, uncovered=0, rows=430)
    assert isinstance(wanted, TableProcess)
    parameters: Any = subject.admitted(subject.stored(wanted)).process.parameters
    [chosen] = parameters["indices"]
    assert chosen == {"name": "vector_idx", "merge": True, "rows": 0, "parts": 2}
    small = {"lance.optimize-indices.max-parts": "1", "lance.optimize-indices.max-bytes": "1"}
    sentences.check("an index too large to merge", harness(path, small).wants(ACTION).reason, size=SIZE)


def test_a_table_without_an_index_needs_nothing(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=2)
    answer = harness(path).wants(ACTION)
    assert isinstance(answer, Skip)
    sentences.check("no indices", answer.reason, indices=0)


def test_an_old_index_that_does_not_say_what_it_covers_is_left_alone() -> None:
    part = SimpleNamespace(fragment_ids=None)
    index = SimpleNamespace(name="old", index_type="IVF_PQ", segments=[part], total_size_bytes=None)
    fragment = Fragment(id=1, rows=10, deleted=1, sizes=(1,), has_deletions=True)

    found = coverage_of(index, [fragment])

    assert (found.is_known, found.rows, found.bytes) == (False, 9, 0)
