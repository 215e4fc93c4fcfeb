# SPDX-License-Identifier: Apache-2.0
"""Which files a table needs: all that snapshots, tags, changelogs and branches name. Unreadable is never empty."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lakehand.formats.paimon.layout import SNAPSHOT, Document, Layout
from lakehand.formats.paimon.manifests import Manifest, Manifests
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.storage import Entry

LISTS = ("baseManifestList", "deltaManifestList", "changelogManifestList")
PLACES = ("manifest", "index", "statistics")
BUCKET = "bucket-"
OUTLIVED = "outlived"  # our own mark on the document of a changelog


class TooMany(Exception):
    """More than a decision looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    files: int
    bytes: int
    listed: int

    @property
    def share(self) -> float:
        return self.files / self.listed if self.listed else 0.0


def orphans(snapshot: PaimonSnapshot, older_than: datetime, limit: int) -> Orphans:
    """Files first, references second: what is written meanwhile is not taken for an orphan."""
    listed = 0
    old: list[Entry] = []
    for entry in files_of(snapshot):
        listed += 1
        if listed > limit:
            raise TooMany(f"more than {limit} files")
        if entry.modified < older_than:
            old.append(entry)
    used = used_names(snapshot, limit) if old else set()
    lost = [entry for entry in old if entry.name not in used]
    return Orphans(files=len(lost), bytes=sum(entry.size for entry in lost), listed=listed)


def files_of(snapshot: PaimonSnapshot) -> Iterator[Entry]:
    root = snapshot.layout.root
    for place in PLACES:
        yield from entries(snapshot, f"{root}/{place}")
    for bucket in bucket_folders(snapshot, root, len(snapshot.schema.partition_keys)):
        yield from entries(snapshot, bucket)


def entries(snapshot: PaimonSnapshot, folder: str) -> list[Entry]:
    try:
        return snapshot.storage.entries(folder)
    except FileNotFoundError:
        return []


def bucket_folders(snapshot: PaimonSnapshot, folder: str, depth: int) -> Iterator[str]:
    names = sorted(snapshot.storage.folders(folder))
    if depth == 0:
        yield from (f"{folder}/{name}" for name in names if name.startswith(BUCKET))
        return
    for name in names:
        if "=" in name:
            yield from bucket_folders(snapshot, f"{folder}/{name}", depth - 1)


def used_names(snapshot: PaimonSnapshot, limit: int) -> set[str]:
    """Raises OSError when anything that is referred to cannot be read, so that nothing is deleted then."""
    if not snapshot.ids:
        raise OSError("the table has no snapshot: every file would look like an orphan")
    used: set[str] = set()
    read: set[str] = set()
    for count, document in enumerate(roots(snapshot.layout)):
        if count >= limit:
            raise TooMany(f"more than {limit} snapshots")
        used |= own_names(document)
        for manifest in manifests_of(snapshot.manifests, document):
            if manifest.name not in read:
                read.add(manifest.name)
                used |= names_in(snapshot.manifests, manifest)
        if index := document.get("indexManifest"):
            used |= {str(one["_FILE_NAME"]) for one in snapshot.manifests.records(index)}
    return used | read


def manifests_of(manifests: Manifests, document: Document) -> Iterator[Manifest]:
    """Of a changelog that outlives its snapshot Paimon keeps the lists that it needs; all others must be there."""
    count = 0
    for key in LISTS:
        try:
            for manifest in manifests.of_lists(document, key):
                count += 1
                yield manifest
        except FileNotFoundError:
            if not document.get(OUTLIVED) or key == LISTS[-1]:
                raise
    if not count and (document.get("totalRecordCount") or 0) > 0:
        raise OSError(f"snapshot {document['id']} has rows and no manifest")


def roots(layout: Layout) -> Iterator[Document]:
    """Everything that keeps files: of the main line, then of each branch."""
    for number in layout.ids(SNAPSHOT):
        yield layout.snapshot(number)
    yield from layout.tags().values()
    yield from ({**one, OUTLIVED: True, "indexManifest": None} for one in layout.changelogs())
    for branch in layout.branches().values():
        yield from roots(branch)


def own_names(document: Document) -> set[str]:
    return {str(document[key]) for key in (*LISTS, "indexManifest", "statistics") if document.get(key)}


def names_in(manifests: Manifests, manifest: Manifest) -> set[str]:
    """Deleted files, too: an older snapshot may still read them."""
    return {one for entry in manifests.entries(manifest) for one in (entry.file.name, *entry.file.extra)}
