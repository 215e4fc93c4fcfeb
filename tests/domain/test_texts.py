# SPDX-License-Identifier: Apache-2.0
"""The first sentence of a message."""

import pytest

from lakehand.domain.texts import LONGEST_SENTENCE, first_sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("the lock is held. Ask its owner", "the lock is held"),
        ("org.apache.hudi.Error: no lock\n  at java.lang", "org.apache.hudi.Error: no lock"),
        ("\n 3.5.1 is too old.\n", "3.5.1 is too old"),
        ("", ""),
    ],
)
def test_a_message_is_cut_after_its_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_a_very_long_sentence_is_cut() -> None:
    cut = first_sentence("x" * 1000)

    assert (len(cut), cut[-2:]) == (LONGEST_SENTENCE, "x…")
