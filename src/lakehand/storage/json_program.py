# SPDX-License-Identifier: Apache-2.0
"""A program that parses one large JSON document for the service, and prints what is wanted of it in small pieces.

It is run as a file, with the standard library alone. Standard input is the document, packed by gzip or not; the only
argument is a JSON object: bounds, and what is wanted. Each line of the output is a piece: ``["{", path]`` or
``["[", path]`` begins an object or an array, ``["+", path, part]`` adds members or items to it, ``["=", path, value]``
is a value, and the last line is ``["."]``. An error is one line: ``["!", kind, text]``.
"""

import contextlib
import gc
import gzip
import io
import json
import os
import resource
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

PIECE = 64 * 1024  # characters of a line, unless a value deep inside is longer
DEPTH = 3  # containers are taken apart down to here
FEW = 50  # members or items: smaller containers are one value
NICE = 5  # the service goes first


class Refused(Exception):
    """The kind of an error, and its text."""


def main() -> None:
    wanted = json.loads(sys.argv[1])
    bound_resources(wanted)
    write = sys.stdout.write
    try:
        for line in lines(reduced(parse(read(wanted), wanted), wanted), []):
            write(line + "\n")
        write('["."]\n')
    except Refused as error:
        write(json.dumps(["!", *error.args]) + "\n")
    except MemoryError:
        write('["!","memory",""]\n')


def bound_resources(wanted: Mapping[str, Any]) -> None:
    gc.disable()  # a document has no cycles
    with contextlib.suppress(OSError, ValueError):  # not every system has these
        resource.setrlimit(resource.RLIMIT_CPU, (wanted["seconds"], wanted["seconds"]))
        resource.setrlimit(resource.RLIMIT_AS, (wanted["memory"], wanted["memory"]))
    with contextlib.suppress(OSError):
        os.nice(NICE)
        # Where memory is short, this program ends and not the service.
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123
            score.write("1000")


def read(wanted: Mapping[str, Any]) -> bytes:
    data = sys.stdin.buffer.read(wanted["largest"] + 1)
    if len(data) > wanted["largest"]:
        raise Refused("size", str(wanted["largest"]))
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            data = file.read(wanted["unpacked"] + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise Refused("packed", str(error)) from None
    if len(data) > wanted["unpacked"]:
        raise Refused("bomb", str(wanted["unpacked"]))
    return data


def parse(data: bytes, wanted: Mapping[str, Any]) -> Any:
    count = data.count(b"{") + data.count(b"[")
    if count > wanted["containers"]:
        raise Refused("containers", str(count))
    try:
        return json.loads(data)
    except RecursionError:
        raise Refused("depth", "") from None
    except ValueError as error:
        raise Refused("json", str(error)) from None


def reduced(document: Any, wanted: Mapping[str, Any]) -> Any:
    """Only the wanted members; of the items of some arrays only theirs. Without such wishes all of it."""
    members = wanted.get("members")
    if members is None or not isinstance(document, dict):
        return document
    found = {key: document[key] for key in members if key in document}
    for key, fields in (wanted.get("items") or {}).items():
        if isinstance(found.get(key), list):
            found[key] = [chosen(one, fields) for one in found[key]]
    return found


def chosen(item: Any, fields: Mapping[str, Any]) -> Any:
    """``fields``: true for all of it, a list for some members of an object in it."""
    if not isinstance(item, dict):
        return item
    kept = {key: item[key] for key in fields if key in item}
    for key, inner in fields.items():
        if inner is not True and isinstance(kept.get(key), dict):
            kept[key] = {one: kept[key][one] for one in inner if one in kept[key]}
    return kept


def lines(value: Any, path: list[Any]) -> Iterator[str]:
    """The pieces of a value, in order."""
    where = dump(path)
    if not is_taken_apart(value, path):
        yield f'["=",{where},{dump(value)}]'
        return
    left, right = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield f'["{left}",{where}]'
    part: list[str] = []
    size = 0
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        inside = [*path, key]
        is_large = is_taken_apart(one, inside)
        if part and (is_large or size > PIECE):
            yield f'["+",{where},{left}{",".join(part)}{right}]'
            part, size = [], 0
        if is_large:
            yield from lines(one, inside)
            continue
        part.append(f"{dump(key)}:{dump(one)}" if left == "{" else dump(one))
        size += len(part[-1])
    if part:
        yield f'["+",{where},{left}{",".join(part)}{right}]'


def is_taken_apart(value: Any, path: list[Any]) -> bool:
    return len(path) < DEPTH and isinstance(value, dict | list) and (not path or len(value) > FEW)


def dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
