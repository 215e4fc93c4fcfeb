# SPDX-License-Identifier: Apache-2.0
"""What events named changes the order in which a bounded run takes partitions, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.domain.notifications import LONGEST_NAME, MOST_NAMES, ChangedPartitions
from lakehand.spi.kit import NamedPartitions, choose

SIZES = {"a": 40, "b": 30, "c": 20, "d": 10}


@pytest.mark.parametrize(
    ("name", "is_held"),
    [
        ("day=2026-11-15/country=DE", True),
        ("country=DE/day=2026-11-15", True),
        ("DAY=2026-11-15", True),
        ("/day=2026-11-15/", True),
        ("day=2026%2D11-15", True),
        ("day=2026-11-16", False),
        ("hour=2026-11-15", False),
        ("2026-11-15", False),
        ("day=2026-11-15/DE", False),
        ("", False),
    ],
)
def test_a_partition_is_named_by_its_columns(name: str, is_held: bool) -> None:
    assert NamedPartitions([name]).hold({"day": "2026-11-15", "country": "DE"}) is is_held


def test_a_missing_value_has_the_name_that_hive_gives_it() -> None:
    named = NamedPartitions(["day=__HIVE_DEFAULT_PARTITION__"])
    assert named.hold({"day": None})
    assert not named.hold({"other": None})


def test_without_a_hint_the_order_is_that_of_the_need() -> None:
    choice = choose(SIZES, set(), most=75, parts=9)
    assert (list(choice.sizes), choice.text) == (["a", "b"], "")


def test_named_partitions_come_first_within_half_of_a_run() -> None:
    choice = choose(SIZES, {"c", "d"}, most=75, parts=9)
    assert (list(choice.sizes), choice.text) == (
        ["c", "d", "a"],
        "; of 4 partitions 3 now, first 2 that events named",
    )


def test_a_run_that_takes_everything_needs_no_order() -> None:
    choice = choose(SIZES, {"d"}, most=1000, parts=9)
    assert (set(choice.sizes), choice.text) == (set(SIZES), "")


def test_at_least_one_partition_is_taken_however_large() -> None:
    assert list(choose(SIZES, set(), most=1, parts=9).sizes) == ["a"]
    assert list(choose(SIZES, {"b"}, most=1, parts=9).sizes) == ["a"]


@given(st.sets(st.sampled_from(sorted(SIZES))), st.integers(1, 120), st.integers(2, 4))
def test_a_hint_never_adds_what_is_not_wanted_and_never_exceeds_the_bounds(
    named: set[str], most: int, parts: int
) -> None:
    chosen = choose(SIZES, named | {"unknown"}, most=most, parts=parts).sizes
    assert set(chosen) <= set(SIZES)
    assert 1 <= len(chosen) <= parts
    assert len(chosen) == 1 or sum(chosen.values()) <= most


@given(st.sets(st.sampled_from(sorted(SIZES))), st.integers(1, 120))
def test_where_a_hint_counts_the_most_needed_of_the_others_is_taken_too(named: set[str], most: int) -> None:
    choice = choose(SIZES, named, most=most, parts=9)
    others = [partition for partition in SIZES if partition not in named]
    assert not choice.named or not others or others[0] in choice.sizes


def test_names_are_merged_each_once_up_to_a_bound() -> None:
    few = ChangedPartitions(version=4).with_names(["a=1", "a=2"]).with_names(["a=1", "a=3"])
    assert (few.names, few.is_many, few.version) == (("a=1", "a=2", "a=3"), False, 4)
    assert few.text == "events named 3 partitions: a=1, a=2, a=3"

    many = few.with_names(f"a={n}" for n in range(MOST_NAMES + 1))
    assert (many.names, many.is_many) == ((), True)
    assert many.with_names(["a=1"]).is_many


@pytest.mark.parametrize("name", ["x" * (LONGEST_NAME + 1), "a=\x00", "a=\n"])
def test_a_name_that_cannot_be_kept_means_that_anything_may_have_changed(name: str) -> None:
    assert ChangedPartitions().with_names([name, "a=1"]).is_many
