# SPDX-License-Identifier: Apache-2.0
"""SQL that carries values from outside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.jobs.hudi.calls import instant_of, literal, statement

printable = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="\\"), max_size=30)


@given(printable)
def test_a_quoted_text_cannot_end_early(text: str) -> None:
    quoted = literal(text)

    assert quoted[0] == quoted[-1] == "'"
    assert quoted[1:-1].replace("\\'", "").count("'") == 0
    assert quoted[1:-1].replace("\\'", "'") == text


@pytest.mark.parametrize("text", ["a\\", "\\'", "line\nbreak", "nul\0", "bell\a", "tab\t"])
def test_what_cannot_be_quoted_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be quoted"):
        literal(text)


def test_numbers_and_flags_need_no_quotes() -> None:
    call = statement("run_clean", {"table": "it's", "retain_commits": 3, "schedule_in_line": False})

    assert call == "CALL run_clean(table => 'it\\'s', retain_commits => 3, schedule_in_line => false)"


@pytest.mark.parametrize("procedure", ["run_clean(", "x; DROP TABLE y", "Run"])
def test_only_plain_words_name_a_procedure(procedure: str) -> None:
    with pytest.raises(ValueError, match="no procedure"):
        statement(procedure, {})


@pytest.mark.parametrize("text", ["", "2026", "20261115190727231'", "20261115190727231,20261115190727232", None, 7])
def test_an_instant_is_14_or_17_digits(text: object) -> None:
    with pytest.raises(ValueError, match="is no instant"):
        instant_of(text)
