# SPDX-License-Identifier: Apache-2.0
"""Manifest lists and manifests, read with as few of their fields as decisions need; both never change once written."""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from lakehand.storage import read_records

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
DELETED = 2  # the status of an entry for a file that is gone
FILE_PATH = 2147483546  # the column of a position delete file that names data files
REMEMBERED = 200_000  # files of manifests that are kept in memory

_LIST = frozenset(
    {"manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number", "added_snapshot_id"}
)
_ENTRY = frozenset({"status", "snapshot_id", "sequence_number", "data_file"})
_FILE = frozenset(
    {"content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "referenced_data_file"}
)
_BOUNDS = frozenset({"lower_bounds", "upper_bounds"})
_RANGES = _ENTRY | _BOUNDS | {"content", "file_size_in_bytes", "null_value_counts"}


class Manifest(NamedTuple):
    path: str
    size: int
    spec: int
    holds_deletes: bool
    sequence: int
    added_by: int = 0  # the snapshot that wrote it


class ContentFile(NamedTuple):
    """A live data or delete file."""

    path: str
    size: int
    rows: int
    group: tuple[Any, ...]  # partition spec and partition values
    sequence: int
    content: int
    is_vector: bool  # a deletion vector: a part of a Puffin file
    reference: str | None  # the only data file that a delete file is about
    added_by: int = 0  # the snapshot that wrote it


class ColumnBounds(NamedTuple):
    """What a manifest says of one column of a data file, as it is written there."""

    size: int
    lower: bytes | None  # None: it is not known
    upper: bytes | None
    nulls: int | None


class ManifestCache:
    """The files of manifests that were read lately, by the manifests' paths."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._held = 0
        self._files: OrderedDict[str, Sequence[ContentFile]] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str) -> Sequence[ContentFile] | None:
        with self._lock:
            found = self._files.get(path)
            if found is not None:
                self._files.move_to_end(path)
            return found

    def keep(self, path: str, files: Sequence[ContentFile]) -> None:
        with self._lock:
            if path in self._files:
                return
            self._files[path] = files
            self._held += len(files) + 1
            while self._held > self._limit and self._files:
                self._held -= len(self._files.popitem(last=False)[1]) + 1


def read_list(data: bytes, path: str) -> list[Manifest]:
    return [
        Manifest(
            path=entry["manifest_path"],
            size=entry["manifest_length"],
            spec=entry.get("partition_spec_id") or 0,
            holds_deletes=entry.get("content") == 1,
            sequence=entry.get("sequence_number") or 0,
            added_by=entry.get("added_snapshot_id") or 0,
        )
        for entry in records(data, _LIST, path)
    ]


def read_files(data: bytes, manifest: Manifest) -> list[ContentFile]:
    wanted = _ENTRY | _FILE | (_BOUNDS if manifest.holds_deletes else frozenset())
    return [
        content_file(entry, manifest) for entry in records(data, wanted, manifest.path) if entry["status"] != DELETED
    ]


def content_file(entry: Mapping[str, Any], manifest: Manifest) -> ContentFile:
    file = entry["data_file"]
    sequence, added_by = entry.get("sequence_number"), entry.get("snapshot_id")
    content = file.get("content") or DATA
    return ContentFile(
        path=file["file_path"],
        size=file["file_size_in_bytes"],
        rows=file["record_count"],
        group=(manifest.spec, *file["partition"].values()),
        sequence=manifest.sequence if sequence is None else sequence,
        content=content,
        is_vector=content == POSITION_DELETES and file["file_format"].lower() == "puffin",
        reference=reference_of(file) if content == POSITION_DELETES else None,
        added_by=manifest.added_by if added_by in (None, manifest.added_by) else added_by,  # one number for all of them
    )


def reference_of(file: Mapping[str, Any]) -> str | None:
    """The only data file that a delete file is about: from its own field, or from equal bounds of the path column."""
    if path := file.get("referenced_data_file"):
        return str(path)
    lower, upper = (bound(file.get(name)) for name in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None


def bound(pairs: Sequence[Mapping[str, Any]] | None, column: int = FILE_PATH) -> Any:
    return next((pair["value"] for pair in pairs or () if pair["key"] == column), None)


def read_bounds(data: bytes, manifest: Manifest, column: int) -> list[ColumnBounds]:
    """Of the live data files."""
    files = [one["data_file"] for one in records(data, _RANGES, manifest.path) if one["status"] != DELETED]
    names = ("lower_bounds", "upper_bounds", "null_value_counts")
    return [
        ColumnBounds(file["file_size_in_bytes"], *(bound(file.get(name), column) for name in names)) for file in files
    ]


def records(data: bytes, wanted: frozenset[str], path: str) -> Iterator[Any]:
    """Only the wanted fields. The file is checked before its schema is used."""
    return read_records(data, path, projection=lambda written: projected(written, wanted))


@lru_cache(maxsize=128)
def projected(written: str, wanted: frozenset[str]) -> Any:
    """The schema that a file was written with, less what nobody asks for."""
    import fastavro

    schema = json.loads(written)
    schema["fields"] = [field for field in schema["fields"] if field["name"] in wanted]
    for field in schema["fields"]:
        if field["name"] == "data_file":
            field["type"]["fields"] = [inner for inner in field["type"]["fields"] if inner["name"] in wanted]
    return fastavro.parse_schema(schema)
