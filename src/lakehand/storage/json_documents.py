# SPDX-License-Identifier: Apache-2.0
"""Parsing JSON that a stranger may have written: whatever is wrong with it is an OSError about its file.

Python parses a document in one step, and no other thread runs meanwhile: writers would wait for seconds for an answer.
So large documents are parsed by a program of its own (``json_program.py``), one at a time, with a bound on its memory.
It prints the document in pieces, and only these are parsed here.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple

from lakehand.domain.errors import Busy
from lakehand.storage.bounds import LARGEST, MB, MOST_CONTAINERS, MOST_UNPACKED, TooLarge, refuse_giants
from lakehand.storage.storages import Storage

IN_PROCESS = 2 * MB  # a larger document is parsed by the program
MOST_MEMORY = 2048 * MB  # of the program
SECONDS = 120  # of processor time of the program
COPIED = 8 * MB  # at once: one request to an object store
TURN_TIMEOUT = 5.0  # seconds to wait for others' documents; then the caller is to come back, and its thread is free
AGAIN = timedelta(seconds=20)
PROGRAM = Path(__file__).with_name("json_program.py")
_ONE_AT_A_TIME = Lock()


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


class Wanted(NamedTuple):
    """What is wanted of a document: all of it, or some members, and of the items of its arrays some of theirs."""

    members: Sequence[str] | None = None
    items: Mapping[str, Mapping[str, bool | Sequence[str]]] | None = None  # array → member → all of it, or some of it


EVERYTHING = Wanted()
Piece = tuple[str, list[Any], Any]  # what it is, where, and its value


def read_large(storage: Storage, path: str, location: str, wanted: Wanted = EVERYTHING) -> Iterator[Piece]:
    """The pieces of a document in a file, which may be packed. It is not in the service's memory at any time."""
    with storage.open(path) as file:
        refuse_giants(location, os.fstat(file.fileno()).st_size if storage.is_local else file.size())
        if storage.is_local:
            yield from run_program(file, location, wanted)
            return
        with tempfile.TemporaryFile() as copy:  # outside of the lock: a slow store stops no other table
            while part := file.read(COPIED):
                copy.write(part)
            copy.seek(0)
            yield from run_program(copy, location, wanted)


def parse_large(data: bytes, path: str, wanted: Wanted = EVERYTHING) -> Any:
    """A document that is in memory already."""
    with tempfile.TemporaryFile() as copy:
        copy.write(data)
        copy.seek(0)
        return put_together(run_program(copy, path, wanted))


def run_program(document: IO[bytes], path: str, wanted: Wanted) -> Iterator[Piece]:
    arguments = {
        "largest": LARGEST, "unpacked": MOST_UNPACKED, "containers": MOST_CONTAINERS, "memory": MOST_MEMORY,
        "seconds": SECONDS, **wanted._asdict(),
    }  # fmt: skip
    command = [sys.executable, "-I", "-S", str(PROGRAM), json.dumps(arguments)]
    with one_at_a_time(path), subprocess.Popen(command, stdin=document, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        try:
            for line in program.stdout:
                kind, *rest = json.loads(line)
                if kind == ".":
                    return
                if kind == "!":
                    raise error_of(path, *rest)
                where, value = rest if len(rest) == 2 else (rest[0], None)
                yield kind, where, value
            raise TooLarge(f"{path} cannot be read: the program that parses it was ended, with {program.wait()}")
        finally:
            program.kill()  # it has ended, or nobody wants the rest


@contextmanager
def one_at_a_time(path: str) -> Iterator[None]:
    if not _ONE_AT_A_TIME.acquire(timeout=TURN_TIMEOUT):
        raise Busy(f"{path} is large, and another large file is being read: its turn comes later", again=AGAIN)
    try:
        yield
    finally:
        _ONE_AT_A_TIME.release()


def error_of(path: str, kind: str, text: str) -> OSError:
    sizes = {
        "size": f"{path} has more than {text} bytes, which are not read",
        "bomb": f"{path} unpacks to more than {text} bytes, which is not read",
        "containers": f"{path} has {text} JSON objects and arrays; more than {MOST_CONTAINERS} are not read",
        "memory": f"{path} cannot be read: it does not fit into memory",
    }
    if kind in sizes:
        return TooLarge(sizes[kind])
    if kind == "packed":
        return OSError(f"{path} cannot be unpacked: {text}")
    why = "it is nested too deeply" if kind == "depth" else f"it is not a JSON document: {text}"
    return OSError(f"{path} cannot be read: {why}")


def put_together(pieces: Iterator[Piece]) -> Any:
    """The document that the pieces are of."""
    whole: list[Any] = []  # with the document as its only item, so that it is placed as any other value
    for kind, path, value in pieces:
        if kind == "+":
            add(whole, [0, *path], value)
        else:
            place(whole, [0, *path], value if kind == "=" else {} if kind == "{" else [])
    return whole[0]


def add(whole: list[Any], path: Sequence[Any], part: Any) -> None:
    target = find(whole, path)
    if isinstance(target, dict):
        target.update(part)
    else:
        target.extend(part)


def place(whole: list[Any], path: Sequence[Any], value: Any) -> None:
    target = find(whole, path[:-1])
    if isinstance(target, dict):
        target[path[-1]] = value
    else:
        target.append(value)  # pieces come in order


def find(whole: list[Any], path: Sequence[Any]) -> Any:
    target: Any = whole
    for step in path:
        target = target[step]
    return target
