# SPDX-License-Identifier: Apache-2.0
"""An Iceberg table at one moment: its metadata file; manifests are opened only when someone asks for files."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from os import SEEK_END
from typing import Any, NamedTuple

from lakehand.domain.cached_property import cached_property
from lakehand.formats.iceberg.commits import SNAPSHOTS, TAG, LargeMetadata, SnapshotCommit, ancestors, commit_of
from lakehand.formats.iceberg.manifests import (
    DATA,
    EQUALITY_DELETES,
    POSITION_DELETES,
    ColumnBounds,
    ContentFile,
    Manifest,
    ManifestCache,
    read_bounds,
    read_files,
    read_list,
)
from lakehand.spi import Json, health, kit
from lakehand.spi.kit.conversions import moment_of
from lakehand.storage import Storages

MAIN = "main"
TARGET_BYTES = 512 * health.MB
SMALL_SHARE = 0.75  # of the target: as Iceberg's own rewrite sees it
READERS = 8


class StatisticsFile(NamedTuple):
    """Statistics of one snapshot: a Puffin file of the table's, or a file of the partitions'."""

    path: str
    size: int
    columns: int  # that it has sketches of


class Ref(NamedTuple):
    """A branch or a tag."""

    snapshot: int
    is_branch: bool
    min_snapshots: int | None
    max_age: int | None  # milliseconds


@dataclass(frozen=True, kw_only=True)
class IcebergSnapshot:
    """What an Iceberg table's own metadata says."""

    token: str
    location: str
    metadata: Mapping[str, Any] = field(repr=False)
    metadata_location: str
    why_read_only: str = ""  # why nothing can be written here; empty when it can
    storages: Storages = field(repr=False, compare=False)
    cache: ManifestCache = field(repr=False, compare=False)

    @property
    def version(self) -> int:
        return int(self.metadata["format-version"])

    @property
    def identity(self) -> str | None:
        """What stays when the table is moved or renamed; tables of version 1 may have none."""
        identifier = self.metadata.get("table-uuid")
        return None if identifier is None else str(identifier)

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.get("properties") or {}

    @property
    def spec(self) -> int:
        return int(self.metadata.get("default-spec-id") or 0)

    @cached_property
    def commits(self) -> Mapping[int, SnapshotCommit]:
        if isinstance(self.metadata, LargeMetadata) and self.metadata.commits is not None:
            return self.metadata.commits
        return {commit.id: commit for commit in map(commit_of, self.metadata.get(SNAPSHOTS) or ())}

    @cached_property
    def refs(self) -> Mapping[str, Ref]:
        refs = self.metadata.get("refs")
        if refs is None:
            return {} if self.current is None else {MAIN: Ref(self.current.id, True, None, None)}
        return {name: ref_of(ref) for name, ref in refs.items()}

    @property
    def current(self) -> SnapshotCommit | None:
        head = self.metadata.get("current-snapshot-id")
        return None if head is None else self.commits.get(head)

    def tagged(self, tag: str) -> list[SnapshotCommit]:
        """What an operation of ours has committed."""
        return [commit for commit in self.commits.values() if commit.summary.get(TAG) == tag]

    def is_built_on(self, snapshot: int) -> bool:
        """Whether the newest snapshot names this one, or has a manifest of it. Some catalogs list no older ones."""
        if self.current is None:
            return False
        return self.current.parent == snapshot or any(one.added_by == snapshot for one in self.manifests)

    @cached_property
    def manifests(self) -> Sequence[Manifest]:
        if self.current is None:
            return ()
        if not self.current.manifest_list:
            return [Manifest(path, 0, 0, False, 0) for path in self.current.manifests]
        return read_list(self._read(self.current.manifest_list), self.current.manifest_list)

    @cached_property
    def files(self) -> Sequence[ContentFile]:
        """Every live file, data and deletes."""
        return [file for files in self._files_of(self.manifests) for file in files]

    @cached_property
    def data_files(self) -> Sequence[ContentFile]:
        return [file for file in self.files if file.content == DATA]

    @cached_property
    def delete_files(self) -> Sequence[ContentFile]:
        return [file for file in self.files if file.content != DATA]

    @property
    def position_deletes(self) -> Sequence[ContentFile]:
        return [file for file in self.delete_files if file.content == POSITION_DELETES and not file.is_vector]

    def added_at(self, file: ContentFile) -> datetime:
        """When its snapshot was committed. One that has expired is older than all that the current one is built on."""
        commit = self.commits.get(file.added_by)
        return commit.time if commit else self._oldest_ancestor

    @cached_property
    def _oldest_ancestor(self) -> datetime:
        return min(moment_of(commit.at) for commit in ancestors(self.commits, self.metadata["current-snapshot-id"]))

    @property
    def target_bytes(self) -> int:
        return whole_number(self.properties, "write.target-file-size-bytes", TARGET_BYTES)

    @cached_property
    def numbers(self) -> Mapping[str, Json]:
        sizes, limit = [file.size for file in self.data_files], self.target_bytes * SMALL_SHARE
        vectors = sum(file.is_vector for file in self.delete_files)
        return {
            "format_version": self.version,
            **health.file_numbers(sizes, [size for size in sizes if size < limit]),
            health.ROWS: sum(file.rows for file in self.data_files),
            health.DELETE_FILES: len(self.delete_files) - vectors,
            health.DELETION_VECTORS: vectors,
            "equality_delete_files": sum(file.content == EQUALITY_DELETES for file in self.delete_files),
            "deleted_rows": sum(file.rows for file in self.delete_files if file.content == POSITION_DELETES),
            "manifests": len(self.manifests),
            **self.history_numbers(),
        }

    def history_numbers(self) -> dict[str, Json]:
        oldest = min(self.commits.values(), key=lambda commit: commit.at, default=None)
        return {
            health.SNAPSHOTS: len(self.commits),
            health.OLDEST_SNAPSHOT: oldest.time.isoformat(timespec="seconds") if oldest else None,
            "branches": sum(ref.is_branch for ref in self.refs.values()),
            "tags": sum(not ref.is_branch for ref in self.refs.values()),
        }

    def statistics(self, kind: str) -> Mapping[int, StatisticsFile]:
        """By snapshot; ``kind``: as the metadata calls the list."""
        return {entry["snapshot-id"]: statistics_of(entry) for entry in self.metadata.get(kind) or ()}

    def is_there(self, file: StatisticsFile) -> bool:
        """Whether a file is where the metadata says, as long as it says."""
        storage, path = self.storages.of(resolve(file.path, self.metadata_location))
        try:
            with storage.open(path) as opened:
                opened.seek(0, SEEK_END)
                return bool(opened.tell() == file.size)
        except FileNotFoundError:
            return False

    def totals(self) -> dict[str, Json]:
        """Counts that the current snapshot's summary has, without opening any file."""
        summary = self.current.summary if self.current else {}
        named = {"files": "total-data-files", "delete_files": "total-delete-files", "rows": "total-records"}
        return {**{key: whole_number(summary, name, 0) for key, name in named.items()}, "snapshots": len(self.commits)}

    def bounds(self, manifests: Sequence[Manifest], column: int) -> Iterator[ColumnBounds]:
        """Of the data files in some manifests, which are read for that: bounds are too large to be remembered."""
        if len(manifests) > 2 and not self.storages.of(self.metadata_location)[0].is_local:
            with ThreadPoolExecutor(READERS) as pool:
                yield from (
                    one for found in pool.map(lambda m: self._read_bounds(m, column), manifests) for one in found
                )
            return
        for manifest in manifests:
            yield from self._read_bounds(manifest, column)

    def _read_bounds(self, manifest: Manifest, column: int) -> Sequence[ColumnBounds]:
        return read_bounds(self._read(manifest.path), manifest, column)

    def _files_of(self, manifests: Sequence[Manifest]) -> Iterator[Sequence[ContentFile]]:
        unread = [manifest for manifest in manifests if self.cache.get(manifest.path) is None]
        if len(unread) > 2 and not self.storages.of(self.metadata_location)[0].is_local:
            with ThreadPoolExecutor(READERS) as pool:
                list(pool.map(self._read_manifest, unread))
        return map(self._read_manifest, manifests)

    def _read_manifest(self, manifest: Manifest) -> Sequence[ContentFile]:
        files = self.cache.get(manifest.path)
        if files is None:
            files = read_files(self._read(manifest.path), manifest)
            self.cache.keep(manifest.path, files)
        return files

    def _read(self, location: str) -> bytes:
        storage, path = self.storages.of(resolve(location, self.metadata_location))
        return storage.read(path)


def resolve(location: str, beside: str) -> str:
    """A path without a scheme means the storage of the metadata that names it."""
    scheme, separator, rest = beside.partition("://")
    if not location.startswith("/") or not separator or scheme == "file":
        return location
    return f"{scheme}://{rest.partition('/')[0]}{location}"


def statistics_of(entry: Mapping[str, Any]) -> StatisticsFile:
    columns = {field for blob in entry.get("blob-metadata") or () for field in blob.get("fields") or ()}
    return StatisticsFile(entry["statistics-path"], entry["file-size-in-bytes"], len(columns))


def ref_of(ref: Mapping[str, Any]) -> Ref:
    return Ref(
        snapshot=ref["snapshot-id"],
        is_branch=ref.get("type", "branch") == "branch",
        min_snapshots=ref.get("min-snapshots-to-keep"),
        max_age=ref.get("max-snapshot-age-ms"),
    )


def whole_number(values: Mapping[str, str], key: str, default: int) -> int:
    """Properties are texts that anybody may have set: what is not a number counts as not set."""
    text = str(values.get(key, "")).strip()
    return int(text) if text.isdigit() else default


def why_files_are_kept(context: kit.DecisionContext[IcebergSnapshot]) -> str | None:
    if context.snapshot.properties.get("gc.enabled", "true").lower() == "false":
        return "the table's property gc.enabled is false: its files may belong to other tables, too"
    return None
