# SPDX-License-Identifier: Apache-2.0
"""Texts at the top of a JSON object, found in pieces of any size."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.rest.wire import LONGEST_TEXT, MOST_KEYS, TopTexts

WANTED = ("basePath", "tableName")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(
    st.sampled_from([*WANTED, "hoodieWriteStat", 'a"b', "{", "x\\"]) | st.text(max_size=5), VALUES
)


def found_in(body: bytes, size: int = 1 << 20) -> dict[str, str]:
    texts = TopTexts(WANTED)
    for at in range(0, len(body), size):
        texts.feed(body[at : at + size])
    return texts.found


def expected(document: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in document.items() if key in WANTED and isinstance(value, str)}


@given(document=OBJECTS, size=st.integers(1, 40), indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_it_agrees_with_a_whole_parser_however_the_body_is_cut(
    document: dict[str, Any], size: int, indent: int | None, is_ascii: bool
) -> None:
    body = json.dumps(document, indent=indent, ensure_ascii=is_ascii).encode()

    assert found_in(body, size) == expected(document)


@given(body=st.binary(max_size=200), size=st.integers(1, 9))
def test_no_bytes_can_upset_it(body: bytes, size: int) -> None:
    found_in(body, size)
    found_in(b'{"basePath":"' + body, size)


def test_it_is_over_as_soon_as_all_is_found() -> None:
    texts = TopTexts(WANTED)
    texts.feed(b'{"tableName":"trips","basePath":"/data/trips","hoodieWriteStat":[')

    assert texts.is_over
    assert texts.found == {"tableName": "trips", "basePath": "/data/trips"}


@pytest.mark.parametrize("inside", ["x" * 100_000, '\\"' * 50_000, "\\\\" * 50_000])
def test_long_texts_are_passed_over_without_being_kept(inside: str) -> None:
    body = f'{{"junk":"{inside}","basePath":"/data/trips"}}'.encode()

    assert found_in(body, 4096) == {"basePath": "/data/trips"}


def test_a_wanted_text_that_is_too_long_is_not_taken() -> None:
    assert found_in(json.dumps({"basePath": "/" + "x" * LONGEST_TEXT}).encode(), 1000) == {}


def test_a_wide_object_is_given_up() -> None:
    texts = TopTexts(WANTED)
    texts.feed(json.dumps({str(number): 0 for number in range(MOST_KEYS + 1)}).encode())

    assert texts.is_over


@pytest.mark.parametrize("junk", [b"[" * 300_000, b'"' * 500_000, b'{"a":' + b"[]" * 150_000])
def test_a_body_made_of_brackets_is_given_up(junk: bytes) -> None:
    texts = TopTexts(WANTED)
    texts.feed(junk)

    assert texts.is_over


def test_half_a_surrogate_pair_becomes_harmless() -> None:
    assert found_in(b'{"basePath":"/data/\\ud800"}') == {"basePath": "/data/?"}
