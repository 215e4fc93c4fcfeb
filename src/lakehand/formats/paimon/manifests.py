# SPDX-License-Identifier: Apache-2.0
"""The data files of a snapshot: manifest lists name manifests, and manifests add and delete files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakehand.formats.paimon.layout import Document
from lakehand.storage import Storage, read_records

ADD, DELETE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonFile:
    partition: bytes  # a row in Paimon's own binary form: equal rows are equal bytes
    bucket: int
    level: int
    name: str
    size: int
    rows: int
    created: int = 0  # milliseconds, by the writer's clock and zone
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    is_added: bool
    file: PaimonFile


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonManifest:
    name: str
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a snapshot holds. ``lost``: deletions of files that are not there, which no sound table has."""

    files: tuple[PaimonFile, ...]
    lost: tuple[PaimonFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """The manifest folder of a table; branches share it."""

    storage: Storage = field(repr=False, compare=False)
    folder: str

    def content(self, snapshot: Document) -> Content:
        """Everything that the manifests add and do not delete again."""
        live: dict[tuple[bytes, int, int, str], PaimonFile] = {}
        lost: dict[tuple[bytes, int, int, str], PaimonFile] = {}
        for manifest in self.of_lists(snapshot, "baseManifestList", "deltaManifestList"):
            for entry in self.entries(manifest):
                file = entry.file
                key = (file.partition, file.bucket, file.level, file.name)
                if entry.is_added:
                    live[key] = file
                elif live.pop(key, None) is None:
                    lost[key] = file
        return Content(files=tuple(live.values()), lost=tuple(lost.values()))

    def changes(self, snapshot: Document) -> list[ManifestEntry]:
        """What one snapshot added and deleted."""
        return [entry for manifest in self.of_lists(snapshot, "deltaManifestList") for entry in self.entries(manifest)]

    def deleted_files(self, snapshot: Document) -> int:
        """How many files a snapshot deleted, from its manifest list alone."""
        return sum(int(one["_NUM_DELETED_FILES"]) for one in self.records(snapshot["deltaManifestList"]))

    def of_lists(self, snapshot: Document, *keys: str) -> Iterator[PaimonManifest]:
        """The manifests, in the order in which they were written."""
        for key in keys:
            if snapshot.get(key):
                yield from map(manifest_of, self.records(snapshot[key]))

    def entries(self, manifest: PaimonManifest) -> Iterable[ManifestEntry]:
        found = self.records(manifest.name)
        if len(found) != manifest.entries:
            raise OSError(f"{manifest.name} is not whole: {len(found)} of {manifest.entries} entries can be read")
        return map(entry_of, found)

    def records(self, name: str) -> list[dict[str, Any]]:
        path = f"{self.folder}/{name}"
        if "/" in name:
            raise OSError(f"{path} is not read: the table's metadata names a file that is not in its own folder")
        return [one for one in read_records(self.storage.read(path), path) if isinstance(one, dict)]


def manifest_of(record: dict[str, Any]) -> PaimonManifest:
    return PaimonManifest(name=record["_FILE_NAME"], entries=record["_NUM_ADDED_FILES"] + record["_NUM_DELETED_FILES"])


def entry_of(record: dict[str, Any]) -> ManifestEntry:
    file = record["_FILE"]
    created = file.get("_CREATION_TIME")
    return ManifestEntry(
        is_added=record["_KIND"] == ADD,
        file=PaimonFile(
            partition=record["_PARTITION"], bucket=record["_BUCKET"], level=file["_LEVEL"], name=file["_FILE_NAME"],
            size=file["_FILE_SIZE"], rows=file["_ROW_COUNT"], extra=tuple(file["_EXTRA_FILES"]),
            created=round(created.timestamp() * 1000) if created else 0,
        ),
    )  # fmt: skip
