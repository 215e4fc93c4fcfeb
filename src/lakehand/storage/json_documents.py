# SPDX-License-Identifier: Apache-2.0
"""Parsing JSON that a stranger may have written: whatever is wrong with it is an OSError about its file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from lakehand.storage.bounds import MB, MOST_CONTAINERS, TooLarge
from lakehand.storage.large_json import IN_PROCESS, parse_large


def parse_json(data: bytes | str, path: str) -> Any:
    """The document. Bounded by its size, by its depth (Python's own limit) and by its number of objects and arrays.

    A large one is parsed by a program of its own: no thread of ours runs while Python parses a document.
    """
    if len(data) > IN_PROCESS:
        return parse_large(data.encode() if isinstance(data, str) else data, path)
    refuse_too_many(data, path)
    with errors_about(path):
        return json.loads(data)


def parse_json_lines(data: bytes, path: str) -> list[Any]:
    """One document on each line that is not empty."""
    refuse_too_many(data, path)
    with errors_about(path):
        return [json.loads(line) if len(line) <= IN_PROCESS else parse_large(line, path) for line in lines_of(data)]


def lines_of(data: bytes) -> Iterator[bytes]:
    """One after the other: other threads go on in between."""
    return (line for line in BytesIO(data) if line.strip())


@contextmanager
def errors_about(path: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise OSError(f"{path} cannot be read: it is nested too deeply") from error
    except MemoryError as error:
        raise TooLarge(f"{path} cannot be read: it does not fit into memory") from error
    except ValueError as error:
        raise OSError(f"{path} cannot be read: it is not a JSON document: {error}") from error


def refuse_too_many(data: bytes | str, path: str) -> None:
    if len(data) < MOST_CONTAINERS:
        return
    signs: Any = (b"{", b"[") if isinstance(data, bytes) else ("{", "[")
    count = sum(data.count(sign, start, start + MB) for start in range(0, len(data), MB) for sign in signs)
    if count > MOST_CONTAINERS:
        raise TooLarge(f"{path} has {count} JSON objects and arrays; more than {MOST_CONTAINERS} are not read")
