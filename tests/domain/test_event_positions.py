# SPDX-License-Identifier: Apache-2.0
"""How far events were followed: as a text and back, in any order of ids."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.domain.errors import Invalid
from lakehand.domain.events import MOST_RANGES, EventPosition

IDS = st.lists(st.integers(min_value=1, max_value=60))


@settings(max_examples=200, deadline=None)
@given(base=st.integers(min_value=0, max_value=30), before=IDS, after=IDS)
def test_each_id_is_delivered_once_also_after_a_round_trip_as_text(
    base: int, before: list[int], after: list[int]
) -> None:
    position = EventPosition(base)
    first = [number for number in before if position.add(number)]
    again = EventPosition.read(str(position))
    second = [number for number in after if again.add(number)]

    assert sorted([*first, *second]) == sorted({number for number in [*before, *after] if number > base})
    assert again.highest == max([base, *before, *after])
    assert set(again.missing()) == set(range(base + 1, again.highest)) - {*before, *after}


def test_ids_without_gaps_are_one_number() -> None:
    position = EventPosition(5)
    for number in (7, 6, 8):
        position.add(number)

    assert (str(position), position.seen) == ("8", set())


def test_what_is_settled_never_comes() -> None:
    position = EventPosition(5)
    for number in (7, 9, 10):
        position.add(number)
    assert (str(position), list(position.missing())) == ("5,7,9-10", [8, 6])

    position.settle(6)
    assert str(position) == "7,9-10"
    position.settle(8)
    assert str(position) == "10"
    assert not position.add(6)


def test_a_text_stays_bounded() -> None:
    position = EventPosition()
    for number in range(2, 6 * MOST_RANGES, 2):
        position.add(number)

    text = str(position)

    assert text.count(",") == MOST_RANGES
    assert EventPosition.read(text).highest == position.highest


@pytest.mark.parametrize(
    "text", ["x", "-1", "1,", "1,2-", "1;2", "1,1-99999999999", "²", "1 ", "99999999999999999999", "9" * 19]
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        EventPosition.read(text)
