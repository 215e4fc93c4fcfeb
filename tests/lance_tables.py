# SPDX-License-Identifier: Apache-2.0
"""Real Lance tables for tests, written by Lance's own library; their versions can be made older than they are."""

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lakehand.formats.lance.manifests import version_of
from lakehand.formats.lance.table import LANCE
from lakehand.jobs.lance.commits import TAG
from lakehand.spi import TableSpec

TIMESTAMP = 7  # the field of a manifest
SECONDS = 1  # and of a timestamp
INDICES = {"id": "BTREE", "v": "BITMAP", "note": "INVERTED", "vector": "IVF_PQ"}  # by column
Facts = tuple[int, int, str]  # rows, sum of the ids, and a hash over all columns of all rows


def rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "v": [i * 3 for i in ids], "note": [f"note {i % 7}" for i in ids]})


def make_table(path: Path, *, fragments: int = 100, each: int = 10, **how: Any) -> Path:
    """A table of many small fragments, one per commit."""
    for number in range(fragments):
        mode = "append" if number else "create"
        lance.write_dataset(rows(number * each, each), str(path), mode=mode, **(how if number == 0 else {}))
    return path


def make_vectors(path: Path, *, fragments: int = 4, each: int = 100, **how: Any) -> Path:
    """A table with vectors, and an index of each kind that covers all of it."""
    for number in range(fragments):
        mode = "append" if number else "create"
        lance.write_dataset(with_vectors(number * each, each), str(path), mode=mode, **(how if number == 0 else {}))
    for column, kind in INDICES.items():
        if kind == "IVF_PQ":
            lance.dataset(str(path)).create_index(column, kind, num_partitions=1, num_sub_vectors=2)
        else:
            lance.dataset(str(path)).create_scalar_index(column, kind)  # type: ignore[arg-type]
    return path


def with_vectors(first: int, count: int) -> pa.Table:
    """Rows whose vector is made of their id, so that a search tells which rows it sees."""
    numbers = [float((i * 31 + k * 7) % 101) for i in range(first, first + count) for k in range(4)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers, pa.float32()), 4)
    return rows(first, count).append_column("vector", vectors)


def append_vectors(path: Path, first: int, count: int = 10) -> None:
    lance.write_dataset(with_vectors(first, count), str(path), mode="append")


def append(path: Path, first: int, count: int = 10) -> None:
    lance.write_dataset(rows(first, count), str(path), mode="append")


def overwrite(path: Path, first: int, count: int = 10) -> None:
    lance.write_dataset(rows(first, count), str(path), mode="overwrite")


def delete(path: Path, where: str) -> None:
    lance.dataset(str(path)).delete(where)


def update(path: Path, where: str) -> None:
    lance.dataset(str(path)).update({"note": "'changed'"}, where=where)


def facts(path: Path | str, version: int | str | None = None, options: dict[str, str] | None = None) -> Facts:
    dataset = lance.dataset(str(path), version=version, storage_options=options)
    found = sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])
    return len(found), sum(row["id"] for row in found), hashlib.sha256(repr(found).encode()).hexdigest()


def fragments(path: Path) -> list[int]:
    """Rows of each fragment."""
    return [fragment.count_rows() for fragment in lance.dataset(str(path)).get_fragments()]


def latest(path: Path) -> int:
    return int(lance.dataset(str(path)).version)


def versions(path: Path) -> list[int]:
    found = (version_of(file.name) for file in (path / "_versions").iterdir())
    return sorted(version for version in found if version is not None)


def tags(path: Path) -> dict[int, str]:
    """Version → the tag in its transaction, of versions that have one."""
    dataset: Any = lance.dataset(str(path))
    found = {version: dataset.read_transaction(version).transaction_properties for version in versions(path)}
    return {version: one[TAG] for version, one in found.items() if TAG in one}


def spec(path: Path, properties: Mapping[str, str] | None = None) -> TableSpec:
    return TableSpec(location=str(path), format=LANCE, properties=properties or {})


def make_older(path: Path, age: timedelta, *, up_to: int | None = None) -> None:
    """Let the versions up to one, or all, seem to have been committed earlier than they were."""
    for file in (path / "_versions").iterdir():
        version = version_of(file.name)
        if version is not None and (up_to is None or version <= up_to):
            set_back(file, age)


def set_back(manifest: Path, age: timedelta) -> None:
    data, changed = bytearray(manifest.read_bytes()), manifest.stat().st_mtime
    start = struct.unpack("<Q", data[-16:-8])[0]
    end = start + 4 + struct.unpack("<I", data[start : start + 4])[0]
    [tag] = [(first, last) for number, first, last in fields(data, start + 4, end) if number == TIMESTAMP]
    [(first, last)] = [(first, last) for number, first, last in fields(data, *tag) if number == SECONDS]
    seconds = number_at(data, first)[0] - int(age.total_seconds())
    data[first:last] = encoded(seconds, last - first)
    manifest.write_bytes(data)
    os.utime(manifest, (changed - age.total_seconds(),) * 2)


def fields(data: bytearray, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of each field of a message, as protocol buffers have them."""
    while at < end:
        key, at = number_at(data, at)
        if key & 7 == 2:
            size, at = number_at(data, at)
            after = at + size
        else:
            after = {0: number_at(data, at)[1], 1: at + 8, 5: at + 4}[key & 7]
        yield key >> 3, at, after
        at = after


def number_at(data: bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def encoded(value: int, size: int) -> bytes:
    return bytes((value >> 7 * n) & 127 | (128 if n < size - 1 else 0) for n in range(size))
