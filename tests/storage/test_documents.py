# SPDX-License-Identifier: Apache-2.0
"""JSON and gzip that a stranger wrote: too deep, too many, too large and damaged are errors about their file."""

import gzip
import json

import pytest

from lakehand.storage import TooLarge, gunzip, json_documents, parse_json, parse_json_lines

CUT_OFF = gzip.compress(b"x" * 100, mtime=0)[:-9]  # without a time: workers must name the test alike


@pytest.mark.parametrize("parse", [parse_json, parse_json_lines])
def test_a_document_that_is_nested_too_deeply_is_an_error_about_its_file(parse: object) -> None:
    with pytest.raises(OSError, match="/t/f cannot be read: it is nested too deeply"):
        parse(b"[" * 200_000, "/t/f")  # type: ignore[operator]


@pytest.mark.parametrize("parse", [parse_json, parse_json_lines])
def test_a_document_of_too_many_parts_is_refused_before_it_is_parsed(
    parse: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_documents, "MOST_CONTAINERS", 1000)
    many = b"[" + b",".join([b"{}"] * 1000) + b"]"
    with pytest.raises(TooLarge, match="/t/f has 1001 JSON objects and arrays; more than 1000 are not read"):
        parse(many, "/t/f")  # type: ignore[operator]


def test_no_memory_is_an_error_about_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(json, "loads", none_left)
    with pytest.raises(TooLarge, match="/t/f cannot be read: it does not fit into memory"):
        parse_json(b"{}", "/t/f")


def test_lines_are_documents_of_their_own() -> None:
    assert parse_json_lines(b'{"a":1}\n\n{"b":2}\n', "f") == [{"a": 1}, {"b": 2}]
    with pytest.raises(OSError, match="f cannot be read: it is no JSON document"):
        parse_json_lines(b"{}\n{", "f")


def test_gzip_is_unpacked_up_to_the_limit() -> None:
    assert gunzip(gzip.compress(b"one") + gzip.compress(b"two"), "f") == b"onetwo"
    assert gunzip(gzip.compress(bytes(1000)), "f", 1000) == bytes(1000)
    with pytest.raises(TooLarge, match="/t/f unpacks to more than 1000 bytes"):
        gunzip(gzip.compress(bytes(1001)), "/t/f", 1000)


@pytest.mark.parametrize("data", [b"\x1f\x8b", CUT_OFF, b"\x1f\x8b\x08" + b"\xff" * 30])
def test_damaged_gzip_is_an_error_about_the_file(data: bytes) -> None:
    with pytest.raises(OSError, match="f cannot be unpacked"):
        gunzip(data, "f")
