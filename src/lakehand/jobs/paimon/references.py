# SPDX-License-Identifier: Apache-2.0
"""What a table's snapshots, tags, changelogs and branches refer to. What cannot be read is never taken for empty.

Paimon takes a manifest or a list that was cut short for a shorter one, so that each is counted a second way.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.paimon.outside import MAIN, TableGuard, manifest_lists
from lakehand.jobs.paimon.tables import snapshots
from lakehand.jobs.safety import SafetyError
from lakehand.jobs.spark import read_stream

MAGIC, SYNC = b"Obj\x01", 16
_WORD = re.compile(r"[\w.=-]+")


class MetadataUnreadable(SafetyError):
    """Not everything that refers to files could be read, so that no file can be called an orphan."""


def check_names(guard: TableGuard, table: Any) -> None:
    """Before Paimon itself reads what they name: no snapshot, tag or changelog of any branch leads out of the table."""
    with reading():
        for line in lines(table):
            for snapshot in (*roots(line), *line.snapshotManager().safelyGetAllChangelogs()):
                guard.check_snapshot(line.store(), snapshot)


def used_names(guard: TableGuard, table: Any) -> set[str]:
    if table.snapshotManager().latestSnapshotId() is None:
        raise MetadataUnreadable("the table has no snapshot: every file would look like an orphan")
    used: set[str] = set()
    read: set[str] = set()
    check_names(guard, table)  # of what was committed since
    with reading():
        for line in lines(table):
            store = line.store()
            for snapshot in roots(line):
                used |= named_by(store, snapshot, set(manifest_lists(snapshot)), read)
    return used | read | ChangelogNames(guard).read(table)


class ChangelogNames:
    """The names of all files that changelogs still read after their snapshots have expired; each is read once."""

    def __init__(self, guard: TableGuard) -> None:
        self.guard = guard
        self.known: set[tuple[int, str]] = set()
        self.manifests: set[str] = set()
        self.names: set[str] = set()

    def read(self, table: Any) -> set[str]:
        """After the snapshots: one that expires meanwhile has become a changelog by now."""
        with reading():
            found = [(line, one) for line in lines(table) for one in line.snapshotManager().safelyGetAllChangelogs()]
        for line, changelog in found:
            self.guard.job.check()
            with reading():
                self.add(line.store(), changelog)
        return self.names | self.manifests

    def add(self, store: Any, changelog: Any) -> None:
        key = int(changelog.id()), str(changelog.deltaManifestList())
        if key not in self.known:
            self.guard.check_snapshot(store, changelog)
            self.names |= named_by(store, changelog, lists_left(store, changelog), self.manifests, may_be_empty=True)
            self.known.add(key)


@contextmanager
def reading() -> Iterator[None]:
    try:
        yield
    except OutsideTable:
        raise
    except Exception as error:
        raise MetadataUnreadable(f"not everything that refers to files can be read: {str(error)[:500]}") from error


def lines(table: Any) -> Iterator[Any]:
    """The main line, and each branch."""
    for branch in [MAIN, *table.branchManager().branches()]:
        yield table.switchToBranch(branch)


def roots(line: Any) -> Iterator[Any]:
    """All snapshots and tags of a line. (The store of a branch has the tags of the main line, in Paimon 0.9.)"""
    yield from snapshots(line.snapshotManager())
    yield from line.tagManager().taggedSnapshots()


def named_by(store: Any, snapshot: Any, names: set[str], read: set[str], *, may_be_empty: bool = False) -> set[str]:
    """``read`` are the manifests that were opened before: snapshots share most of them.

    ``may_be_empty``: as the changelog of a compaction, which changes no row.
    """
    lists, manifests = store.manifestListFactory().create(), store.manifestFileFactory().create()
    used = {*names, *(name for name in (snapshot.indexManifest(), snapshot.statistics()) if name)}
    metas = [meta for name in names for meta in check_whole(store, name, lists.readWithIOException(name))]
    if not metas and not may_be_empty and (snapshot.totalRecordCount() or 0) > 0:
        raise MetadataUnreadable(f"snapshot {snapshot.id()} has rows and no manifest")
    for meta in metas:
        if (manifest := meta.fileName()) not in read:
            read.add(manifest)
            entries = manifests.readWithIOException(manifest)
            check_count(manifest, entries.size(), meta.numAddedFiles() + meta.numDeletedFiles())
            used |= words(entries)
    index = snapshot.indexManifest()
    if index and store.newIndexFileHandler().existsManifest(index):
        used |= words(check_whole(store, index, store.newIndexFileHandler().readManifestWithIOException(index)))
    return used


def check_whole(store: Any, name: str, entries: Any) -> Any:
    """The entries of a list that nothing else counts, if its file holds as many."""
    path = store.pathFactory().toManifestListPath(name)  # of index manifests, too: they lie in the same folder
    content = read_stream(store.snapshotManager().fileIO().newInputStream(path))
    check_count(name, entries.size(), count_records(content))
    return entries


def check_count(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise MetadataUnreadable(f"{name} is not whole: {found} of {expected} entries can be read")


def lists_left(store: Any, changelog: Any) -> set[str]:
    """Of a changelog that outlives its snapshot only the lists that Paimon has kept."""
    lists = store.manifestListFactory().create()
    kept = changelog.changelogManifestList()
    return {name for name in manifest_lists(changelog) if name == kept or lists.exists(name)}


def words(entries: Any) -> set[str]:
    """One text per manifest instead of a call per file: every word of it may be the name of a file."""
    return set(_WORD.findall(entries.toString()))


def first_needed_by_branches(table: Any) -> list[int]:
    """For each branch the first snapshot of the main line that must stay; none where a tag keeps it anyhow.

    Checked right before an expiry: Paimon does not check it at all.
    """
    tagged = delta_lists(table.tagManager().taggedSnapshots())
    main = table.snapshotManager()
    branches = table.branchManager().branches()
    found = (needed_by(list(roots(table.switchToBranch(name))), main, tagged) for name in branches)
    return [number for number in found if number is not None]


def needed_by(branch: list[Any], main: Any, tagged: set[str]) -> int | None:
    if not branch:
        return None
    untagged = [one.id() for one in branch if is_of(main, one) and one.deltaManifestList() not in tagged]
    if untagged:
        return int(min(untagged))
    if delta_lists(branch) & tagged or min(one.id() for one in branch) == 1:
        return None
    return int(main.earliestSnapshotId())


def is_of(main: Any, snapshot: Any) -> bool:
    """Whether a branch began with this snapshot of the main line."""
    if not main.snapshotExists(snapshot.id()):
        return False
    return bool(main.snapshot(snapshot.id()).deltaManifestList() == snapshot.deltaManifestList())


def delta_lists(found: Any) -> set[str]:
    return {str(one.deltaManifestList()) for one in found}


def count_records(data: bytes) -> int:
    """How many records an Avro file holds, by walking over its blocks: a file that ends too early is an error."""
    stream = BytesIO(data)
    if take(stream, len(MAGIC)) != MAGIC:
        raise MetadataUnreadable("it is not an Avro file")
    skip_header(stream)
    sync = take(stream, SYNC)
    records = 0
    while stream.tell() < len(data):
        records += read_number(stream)
        take(stream, read_number(stream))
        if take(stream, SYNC) != sync:
            raise MetadataUnreadable("a block does not end where it says")
    return records


def skip_header(stream: BytesIO) -> None:
    """A map of names and bytes, in blocks; the last block is empty."""
    while pairs := read_number(stream):
        if pairs < 0:
            read_number(stream)  # the block's size in bytes
        for _ in range(2 * abs(pairs)):
            take(stream, read_number(stream))


def read_number(stream: BytesIO) -> int:
    value, shift, byte = 0, 0, 0x80
    while byte & 0x80:
        byte = take(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)


def take(stream: BytesIO, size: int) -> bytes:
    found = stream.read(size) if size >= 0 else b""
    if len(found) != size:
        raise MetadataUnreadable("it was cut short")
    return found
