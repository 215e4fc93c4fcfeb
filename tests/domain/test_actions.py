# SPDX-License-Identifier: Apache-2.0
"""Action names are normalised, interned and short."""

import pytest

from lakehand.domain.actions import Action, actions
from lakehand.domain.errors import Invalid


def test_equal_names_are_one_object() -> None:
    assert Action("Expire_Snapshots") is Action(" expire-snapshots ")


@pytest.mark.parametrize("name", ["", "-", "a--b", "1st", "drop table", "x" * 33, "compaction;", "ä"])
def test_a_name_that_is_no_word_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        Action(name)


def test_only_registered_words_are_part_of_the_vocabulary() -> None:
    assert not Action("never-registered").is_registered
    assert Action.register("tested-here").is_registered


def test_a_list_of_names_skips_the_empty_ones() -> None:
    assert actions(["clean", "", " Compaction"]) == {Action("clean"), Action("compaction")}
