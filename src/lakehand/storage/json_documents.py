# SPDX-License-Identifier: Apache-2.0
"""Parsing JSON that a stranger may have written: whatever is wrong with it is an OSError about its file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehand.storage.bounds import MOST_CONTAINERS, TooLarge


def parse_json(data: bytes | str, path: str) -> Any:
    """The document. Bounded by its size, by its depth (Python's own limit) and by its number of objects and arrays."""
    refuse_too_many(data, path)
    with errors_about(path):
        return json.loads(data)


def parse_json_lines(data: bytes, path: str) -> list[Any]:
    """One document on each line that is not empty."""
    refuse_too_many(data, path)
    with errors_about(path):
        return [json.loads(line) for line in data.splitlines() if line.strip()]


@contextmanager
def errors_about(path: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise OSError(f"{path} cannot be read: it is nested too deeply") from error
    except MemoryError as error:
        raise TooLarge(f"{path} cannot be read: it does not fit into memory") from error
    except ValueError as error:
        raise OSError(f"{path} cannot be read: it is no JSON document: {error}") from error


def refuse_too_many(data: bytes | str, path: str) -> None:
    if len(data) < MOST_CONTAINERS:
        return
    count = data.count(b"{") + data.count(b"[") if isinstance(data, bytes) else data.count("{") + data.count("[")
    if count > MOST_CONTAINERS:
        raise TooLarge(f"{path} has {count} JSON objects and arrays; more than {MOST_CONTAINERS} are not read")
