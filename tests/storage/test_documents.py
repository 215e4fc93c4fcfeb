# SPDX-License-Identifier: Apache-2.0
"""JSON and gzip that a stranger wrote: too deep, too many, too large and damaged are errors about their file."""

import gzip
import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakehand.domain.errors import Busy
from lakehand.storage import (
    IN_PROCESS,
    LocalStorage,
    TooLarge,
    Wanted,
    gunzip,
    json_documents,
    parse_json,
    parse_json_lines,
    put_together,
    read_large,
)

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
    with pytest.raises(OSError, match="f cannot be read: it is not a JSON document"):
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


BOUND = 100_000  # bytes, instead of some megabytes
ROW = {"id": 1, "name": "n" * 100, "parts": [1, {"a": None}], "more": {"x": "1", "y": "2"}}
LARGE: dict[str, Any] = {
    "small": 7, "none": None, "list": [{**ROW, "id": number} for number in range(2000)], "empty": [], "no": {},
    "map": {f"k{number}": [number] * 60 for number in range(100)}, "deep": [[list(range(100))] * 60], "after": "ü",
}  # fmt: skip


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the documents that this process parses; those above the bound are large."""
    found: list[int] = []
    loads = json.loads

    def counted(data: Any) -> Any:
        found.append(len(data))
        return loads(data)

    monkeypatch.setattr(json, "loads", counted)
    monkeypatch.setattr(json_documents, "IN_PROCESS", BOUND)
    return found


@pytest.mark.parametrize("parse", [parse_json, lambda data, path: parse_json_lines(data, path)[0]])
def test_a_large_document_is_never_parsed_in_one_step_by_the_service(
    parse: Callable[[Any, str], Any], longest: list[int]
) -> None:
    """No thread of the service runs during such a step, and writers wait for their answers."""
    data = json.dumps(LARGE).encode()
    assert len(data) > 3 * BOUND

    assert parse(data, "/t/f") == LARGE

    assert max(longest) < BOUND
    assert [parse(other, "/t/f") for other in (b"[" + data + b"]", b" " * BOUND + b"3")] == [[LARGE], 3]


def test_the_bound_is_a_few_megabytes() -> None:
    assert IN_PROCESS <= 4 * 1024**2


def test_only_what_is_wanted_of_a_large_file_reaches_the_service(tmp_path: Path, longest: list[int]) -> None:
    file = tmp_path / "f"
    wanted = Wanted(members=("small", "list"), items={"list": {"id": True, "more": ("y",)}})
    for data in (json.dumps(LARGE).encode(), gzip.compress(json.dumps(LARGE).encode(), mtime=0)):
        file.write_bytes(data)
        found = put_together(read_large(LocalStorage(), str(file), "/t/f", wanted))
        assert found == {"small": 7, "list": [{"id": number, "more": {"y": "2"}} for number in range(2000)]}
    assert max(longest) < BOUND


BROKEN: dict[str, tuple[bytes, type[OSError], str]] = {
    "cut short": (b"[" + b'"a",' * BOUND, OSError, "/t/f cannot be read: it is not a JSON document"),
    "too deep": (b"[" * 2 * BOUND, OSError, "/t/f cannot be read: it is nested too deeply"),
    "too many parts": (b"[" + b"{}," * 200_000, TooLarge, "/t/f has 200001 JSON objects and arrays; more than 150000"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_large_document_is_an_error_about_its_file(
    case: str, longest: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind, text = BROKEN[case]
    monkeypatch.setattr(json_documents, "MOST_CONTAINERS", 150_000 if case == "too many parts" else 10**6)
    with pytest.raises(kind, match=text):
        parse_json(data, "/t/f")
    assert max(longest, default=0) < BOUND


def test_a_large_document_that_needs_too_much_memory_ends_the_program_and_not_the_service(
    longest: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as tight:
        tight.setattr(json_documents, "MOST_MEMORY", 40 * 1024**2)
        with pytest.raises(TooLarge, match="/t/f cannot be read"):
            parse_json(b"[" + b"[[]]," * 300_000 + b"0]", "/t/f")
    assert parse_json(b"[" + b"1," * BOUND + b"0]", "/t/f")[-1] == 0, "the next one is read"


def test_who_waits_too_long_for_its_turn_is_to_come_back(longest: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is free meanwhile, and no deadline of a call is missed."""
    monkeypatch.setattr(json_documents, "TURN_TIMEOUT", 0.01)
    data = b"[" + b"1," * BOUND + b"0]"
    with json_documents.one_at_a_time("/t/other"), pytest.raises(Busy, match="/t/f is large, and another large file"):
        parse_json(data, "/t/f")
    assert len(parse_json(data, "/t/f")) == BOUND + 1


def test_large_documents_are_parsed_one_at_a_time(longest: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes much memory where it is parsed."""
    running: list[int] = []
    most: list[int] = []

    class Counted(subprocess.Popen):  # type: ignore[type-arg]
        def __enter__(self) -> Any:
            running.append(1)
            most.append(len(running))
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            running.pop()

    monkeypatch.setattr(subprocess, "Popen", Counted)
    monkeypatch.setattr(json_documents, "TURN_TIMEOUT", 600.0)  # on a machine that is busy, too
    data = b"[" + b"1," * BOUND + b"0]"
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: len(parse_json(data, "/t/f")), range(3)))
    assert (set(found), len(most), max(most)) == ({BOUND + 1}, 3, 1)
