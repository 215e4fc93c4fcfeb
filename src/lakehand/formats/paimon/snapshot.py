# SPDX-License-Identifier: Apache-2.0
"""A Paimon table at one moment: schema and snapshot numbers at once, manifests and history when someone asks."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.domain.cached_property import cached_property
from lakehand.formats.paimon.layout import Content, Document, Layout, Manifests, PaimonFile
from lakehand.formats.paimon.schema import TableSchema
from lakehand.spi import Json, health
from lakehand.spi.kit.conversions import moment_of
from lakehand.storage import Storage

OURS = "lakehand-"  # what the commit users of our rewrites begin with
SCHEMA = "schema"
WESTMOST = timedelta(hours=12)  # local time is behind UTC by no more
RECENT = 50  # snapshots that a decision reads back

Bucket = tuple[bytes, int]  # partition and number


@dataclass(frozen=True, kw_only=True)
class PaimonSnapshot:
    """What a Paimon table's own metadata says."""

    token: str
    location: str
    schema: TableSchema
    ids: tuple[int, ...]  # of the snapshots that are kept, oldest first
    layout: Layout = field(repr=False)

    @property
    def storage(self) -> Storage:
        return self.layout.storage

    @property
    def latest(self) -> int:
        return self.ids[-1] if self.ids else 0

    @property
    def earliest(self) -> int:
        return self.ids[0] if self.ids else 0

    @cached_property
    def identity(self) -> str:
        """The first schema: Paimon keeps it for as long as the table lives, and it says when the table was made."""
        number = self.layout.ids(SCHEMA)[0]
        data = self.storage.read(f"{self.layout.root}/{SCHEMA}/{SCHEMA}-{number}")
        return f"{SCHEMA}-{number}:{hashlib.sha256(data).hexdigest()}"

    @cached_property
    def manifests(self) -> Manifests:
        return Manifests(storage=self.storage, folder=f"{self.layout.root}/manifest")

    @cached_property
    def newest(self) -> Document:
        return self.layout.snapshot(self.latest) if self.ids else {}

    @cached_property
    def content(self) -> Content:
        return self.manifests.content(self.newest) if self.newest else Content(files=())

    @property
    def files(self) -> tuple[PaimonFile, ...]:
        return self.content.files

    @cached_property
    def buckets(self) -> Mapping[Bucket, tuple[PaimonFile, ...]]:
        return by_bucket(self.files)

    @cached_property
    def small(self) -> tuple[PaimonFile, ...]:
        """Append tables: what is below Paimon's line. Tables with a key: what is not merged yet."""
        if self.schema.primary_keys:
            return tuple(file for file in self.files if file.level == 0)
        return tuple(file for file in self.files if file.size < self.schema.small_below)

    @cached_property
    def small_buckets(self) -> Mapping[Bucket, tuple[PaimonFile, ...]]:
        return by_bucket(self.small)

    @property
    def small_counts(self) -> Counter[Bucket]:
        return Counter({key: len(files) for key, files in self.small_buckets.items()})

    def written_before(self, file: PaimonFile) -> datetime:
        """When it was written at the latest: it has the local time of its writer, and does not say where that is."""
        return min(moment_of(file.created) + WESTMOST, moment(self.newest))

    def document(self, id: int) -> Document | None:
        """A snapshot, unless someone has expired it meanwhile."""
        if id == self.latest:
            return self.newest
        try:
            return self.layout.snapshot(id)
        except FileNotFoundError:
            return None

    def newest_first(self, *, after: int = 0) -> Iterator[Document]:
        for number in reversed(self.ids):
            if number <= after:
                return
            if (document := self.document(number)) is not None:
                yield document

    @cached_property
    def recent(self) -> tuple[Document, ...]:
        return tuple(self.newest_first(after=self.latest - RECENT))

    def tagged(self, tag: str, *, after: int = 0) -> list[Document]:
        """The snapshots that an operation has committed, newest first."""
        prefix = f"{OURS}{tag}_"
        return [one for one in self.newest_first(after=after) if str(one.get("commitUser")).startswith(prefix)]

    @property
    def numbers(self) -> Mapping[str, Json]:
        return {
            "kind": str(self.schema.kind),
            "write_only": self.schema.is_write_only,
            **health.file_numbers([file.size for file in self.files], [file.size for file in self.small]),
            "buckets": len(self.buckets),
            **self._row_numbers(),
            **self._history_numbers(),
            **({"lost_deletions": len(self.content.lost)} if self.content.lost else {}),
        }

    def _row_numbers(self) -> dict[str, Json]:
        """With a key, rows are known only after those of one key are merged."""
        records = self.newest.get("totalRecordCount")
        if not self.schema.primary_keys:
            return {health.ROWS: records}
        runs = max((sorted_runs(files) for files in self.buckets.values()), default=0)
        return {health.ROWS: None, "unmerged_rows": records, "most_sorted_runs": runs}

    def _history_numbers(self) -> dict[str, Json]:
        oldest = self.document(self.earliest) if self.ids else None
        return {
            health.SNAPSHOTS: len(self.ids),
            health.OLDEST_SNAPSHOT: moment(oldest).isoformat(timespec="seconds") if oldest else None,
            "tags": sum(name.startswith("tag-") for name in self.layout.names("tag")),
            "branches": len(self.layout.branches()),
            health.DELETION_VECTORS: self._deletion_vectors(),
        }

    def _deletion_vectors(self) -> int:
        name = self.newest.get("indexManifest")
        records = self.manifests.records(name) if name else []
        return sum(len(one.get("_DELETIONS_VECTORS_RANGES") or ()) for one in records)


def by_bucket(files: Iterable[PaimonFile]) -> Mapping[Bucket, tuple[PaimonFile, ...]]:
    found: dict[Bucket, list[PaimonFile]] = defaultdict(list)
    for file in files:
        found[file.partition, file.bucket].append(file)
    return {key: tuple(one) for key, one in found.items()}


def sorted_runs(files: tuple[PaimonFile, ...]) -> int:
    """Each file of level 0 is a run of its own; every other level is one."""
    return sum(file.level == 0 for file in files) + len({file.level for file in files if file.level})


def moment(document: Document) -> datetime:
    return moment_of(document["timeMillis"])
