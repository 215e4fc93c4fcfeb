# SPDX-License-Identifier: Apache-2.0
"""The data files of a snapshot: manifest lists name manifests, and manifests add and delete files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakehand.formats.paimon import avro
from lakehand.formats.paimon.layout import Document
from lakehand.storage import Storage

ADD, DELETE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    partition: bytes  # a row in Paimon's own binary form: equal rows are equal bytes
    bucket: int
    level: int
    name: str
    size: int
    rows: int
    created: int = 0  # milliseconds, by the writer's clock and zone
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    is_added: bool
    file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a snapshot holds. ``lost``: deletions of files that are not there, which no sound table has."""

    files: tuple[DataFile, ...]
    lost: tuple[DataFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """The manifest folder of a table; branches share it."""

    storage: Storage = field(repr=False, compare=False)
    folder: str

    def content(self, snapshot: Document) -> Content:
        """Everything that the manifests add and do not delete again."""
        live: dict[tuple[bytes, int, int, str], DataFile] = {}
        lost: dict[tuple[bytes, int, int, str], DataFile] = {}
        for name in self.of_lists(snapshot, "baseManifestList", "deltaManifestList"):
            for entry in self.entries(name):
                file = entry.file
                key = (file.partition, file.bucket, file.level, file.name)
                if entry.is_added:
                    live[key] = file
                elif live.pop(key, None) is None:
                    lost[key] = file
        return Content(files=tuple(live.values()), lost=tuple(lost.values()))

    def changes(self, snapshot: Document) -> list[Entry]:
        """What one snapshot added and deleted."""
        return [entry for name in self.of_lists(snapshot, "deltaManifestList") for entry in self.entries(name)]

    def deleted_files(self, snapshot: Document) -> int:
        """How many files a snapshot deleted, from its manifest list alone."""
        return sum(int(one["_NUM_DELETED_FILES"]) for one in self.records(snapshot["deltaManifestList"]))

    def of_lists(self, snapshot: Document, *keys: str) -> Iterator[str]:
        """The names of the manifests, in the order in which they were written."""
        for key in keys:
            if snapshot.get(key):
                yield from (str(one["_FILE_NAME"]) for one in self.records(snapshot[key]))

    def entries(self, name: str) -> Iterable[Entry]:
        return map(entry_of, self.records(name))

    def records(self, name: str) -> list[dict[str, Any]]:
        path = f"{self.folder}/{name}"
        return avro.records(self.storage.read(path), path)


def entry_of(record: dict[str, Any]) -> Entry:
    file = record["_FILE"]
    created = file.get("_CREATION_TIME")
    return Entry(
        is_added=record["_KIND"] == ADD,
        file=DataFile(
            partition=record["_PARTITION"], bucket=record["_BUCKET"], level=file["_LEVEL"], name=file["_FILE_NAME"],
            size=file["_FILE_SIZE"], rows=file["_ROW_COUNT"], extra=tuple(file["_EXTRA_FILES"]),
            created=round(created.timestamp() * 1000) if created else 0,
        ),
    )  # fmt: skip
