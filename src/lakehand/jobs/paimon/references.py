# SPDX-License-Identifier: Apache-2.0
"""Every file name that a table's snapshots, tags, changelogs and branches hold. What cannot be read is never empty.

Paimon takes a manifest or a list that was cut short for a shorter one, so that each is counted a second way.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.paimon import containers
from lakehand.jobs.paimon.outside import TableGuard
from lakehand.jobs.safety import SafetyError

MAIN = "main"
_WORD = re.compile(r"[\w.=-]+")


class MetadataUnreadable(SafetyError):
    """Not everything that refers to files could be read, so that no file can be called an orphan."""


def check_names(guard: TableGuard, table: Any) -> None:
    """Before Paimon itself reads what they name: no snapshot, tag or changelog of any branch leads out of the table."""
    with reading():
        for store in stores(table):
            for snapshot in (*roots(store), *store.snapshotManager().safelyGetAllChangelogs()):
                guard.check_snapshot(store, snapshot)


def used_names(guard: TableGuard, table: Any) -> set[str]:
    if table.snapshotManager().latestSnapshotId() is None:
        raise MetadataUnreadable("the table has no snapshot: every file would look like an orphan")
    used: set[str] = set()
    read: set[str] = set()
    check_names(guard, table)  # of what was committed since
    with reading():
        for store in stores(table):
            for snapshot in roots(store):
                used |= named_by(store, snapshot, lists_of(snapshot), read)
            for changelog in store.snapshotManager().safelyGetAllChangelogs():
                used |= named_by(store, changelog, left_of(store, changelog), read)
    return used | read


@contextmanager
def reading() -> Iterator[None]:
    try:
        yield
    except OutsideTable:
        raise
    except Exception as error:
        raise MetadataUnreadable(f"not everything that refers to files can be read: {str(error)[:500]}") from error


def stores(table: Any) -> Iterator[Any]:
    """Of the main line and of each branch."""
    for branch in [MAIN, *table.branchManager().branches()]:
        yield table.switchToBranch(branch).store()


def roots(store: Any) -> Iterator[Any]:
    """Snapshots by their numbers and not by what is there: one that is missing in between is an error."""
    manager = store.snapshotManager()
    latest, earliest = manager.latestSnapshotId(), manager.earliestSnapshotId()
    if latest is not None:
        yield from (manager.snapshot(number) for number in range(earliest, latest + 1))
    yield from store.newTagManager().taggedSnapshots()


def named_by(store: Any, snapshot: Any, names: set[str], read: set[str]) -> set[str]:
    """``read`` are the manifests that were opened before: snapshots share most of them."""
    lists, manifests = store.manifestListFactory().create(), store.manifestFileFactory().create()
    used = {*names, *(name for name in (snapshot.indexManifest(), snapshot.statistics()) if name)}
    metas = [meta for name in names for meta in whole(store, name, lists.readWithIOException(name))]
    if not metas and (snapshot.totalRecordCount() or 0) > 0:
        raise MetadataUnreadable(f"snapshot {snapshot.id()} has rows and no manifest")
    for meta in metas:
        if (manifest := meta.fileName()) not in read:
            read.add(manifest)
            entries = manifests.readWithIOException(manifest)
            counted(manifest, entries.size(), meta.numAddedFiles() + meta.numDeletedFiles())
            used |= words(entries)
    index = snapshot.indexManifest()
    if index and store.newIndexFileHandler().existsManifest(index):
        used |= words(whole(store, index, store.newIndexFileHandler().readManifestWithIOException(index)))
    return used


def whole(store: Any, name: str, entries: Any) -> Any:
    """The entries of a list that nothing else counts, if its file holds as many."""
    path = store.pathFactory().toManifestListPath(name)  # of index manifests, too: they lie in the same folder
    counted(name, entries.size(), containers.count(containers.content(store, path)))
    return entries


def counted(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise MetadataUnreadable(f"{name} is not whole: {found} of {expected} entries can be read")


def lists_of(snapshot: Any) -> set[str]:
    names = (snapshot.baseManifestList(), snapshot.deltaManifestList(), snapshot.changelogManifestList())
    return {str(name) for name in names if name}


def left_of(store: Any, changelog: Any) -> set[str]:
    """Of a changelog that outlives its snapshot only the lists that Paimon has kept."""
    lists = store.manifestListFactory().create()
    kept = changelog.changelogManifestList()
    return {name for name in lists_of(changelog) if name == kept or lists.exists(name)}


def words(entries: Any) -> set[str]:
    """One text per manifest instead of a call per file: every word of it may be the name of a file."""
    return set(_WORD.findall(entries.toString()))
