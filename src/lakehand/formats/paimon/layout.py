# SPDX-License-Identifier: Apache-2.0
"""What lies in a table's folder: snapshots, tags, branches, consumers and manifests, each read when it is asked for."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehand.storage import Storage, parse_json, read_records

Document = Mapping[str, Any]  # a snapshot, as its JSON says it
SNAPSHOT, TAG, CHANGELOG = "snapshot", "tag", "changelog"
ADD = 0  # the kind of a manifest entry that adds a file; all others delete one


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The folder of a table, or of one of its branches: both have the same shape."""

    storage: Storage = field(repr=False, compare=False)
    root: str

    def ids(self, kind: str) -> list[int]:
        """The numbers of snapshots, schemas or changelogs, in order."""
        prefix = f"{kind}-"
        names = (name.removeprefix(prefix) for name in self.names(kind) if name.startswith(prefix))
        return sorted(int(name) for name in names if name.isdigit())

    def names(self, folder: str) -> list[str]:
        """File names; a folder that a table does not have yet is empty."""
        try:
            return self.storage.names(f"{self.root}/{folder}")
        except FileNotFoundError:
            return []

    def sign(self, name: str) -> str:
        return self.storage.sign(f"{self.root}/{name}")

    def snapshot(self, id: int) -> Document:
        return self.document(f"{SNAPSHOT}/{SNAPSHOT}-{id}")

    def tags(self) -> dict[str, Document]:
        """Tags by name: each is a copy of its snapshot."""
        return {tag.name: tag.document for tag in self.signed_tags()}

    def signed_tags(self) -> list["TagFile"]:
        names = sorted(name for name in self.names(TAG) if name.startswith("tag-"))
        read = ((name, self.storage.read(f"{self.root}/{TAG}/{name}")) for name in names)
        return [
            TagFile(name.removeprefix("tag-"), parse_document(data, f"{self.root}/{TAG}/{name}"), sign_of(data))
            for name, data in read
        ]

    def changelogs(self) -> Iterator[Document]:
        for number in self.ids(CHANGELOG):
            yield self.document(f"{CHANGELOG}/{CHANGELOG}-{number}")

    def consumers(self) -> dict[str, int]:
        """What each consumer reads next: that snapshot and all later ones must stay."""
        prefix = "consumer-"
        names = [name for name in self.names("consumer") if name.startswith(prefix)]
        return {n.removeprefix(prefix): int(self.document(f"consumer/{n}")["nextSnapshot"]) for n in sorted(names)}

    def branches(self) -> dict[str, "Layout"]:
        try:
            found = self.storage.folders(f"{self.root}/branch")
        except FileNotFoundError:
            return {}
        names = sorted(name.removeprefix("branch-") for name in found if name.startswith("branch-"))
        return {name: Layout(storage=self.storage, root=f"{self.root}/branch/branch-{name}") for name in names}

    def document(self, name: str) -> dict[str, Any]:
        path = f"{self.root}/{name}"
        return parse_document(self.storage.read(path), path)


class TagFile(NamedTuple):
    name: str
    document: Document
    sign: str  # of its bytes: a tag that somebody made anew or prolonged has another


def parse_document(data: bytes, path: str) -> dict[str, Any]:
    found = parse_json(data, path)
    if not isinstance(found, dict):
        raise OSError(f"{path} is not what Paimon writes")
    return found


def sign_of(data: bytes) -> str:
    """The job makes the same."""
    return hashlib.sha256(data).hexdigest()


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


class ManifestEntry(NamedTuple):
    is_added: bool
    file: PaimonFile


class PaimonManifest(NamedTuple):
    name: str
    entries: int


class Content(NamedTuple):
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
        for record in (record for key in keys if snapshot.get(key) for record in self.records(snapshot[key])):
            yield PaimonManifest(record["_FILE_NAME"], record["_NUM_ADDED_FILES"] + record["_NUM_DELETED_FILES"])

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
