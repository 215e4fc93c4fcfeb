# SPDX-License-Identifier: Apache-2.0
"""The files that only one tag keeps.

Paimon takes a list that it cannot read for an empty one, and would delete what others need. Here all that is compared
is read whole, or nothing is deleted.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from lakehand.jobs.paimon import references
from lakehand.jobs.paimon.outside import TableGuard, names_of


class Contents(NamedTuple):
    data: set[str]  # names of data files
    metadata: set[str]  # manifests, lists, indices and statistics, relative to the table


def files_only_of(
    guard: TableGuard, table: Any, name: str, gone: set[str], changelogs: references.ChangelogNames
) -> list[str]:
    """Whole paths. ``gone`` are tags that do not count any more. None while its snapshot or another tag has them."""
    tags = {number: found for number, found in tagged(table) if found[1] - gone}
    number = next((number for number, found in tags.items() if name in found[1]), 0)
    if not number or table.snapshotManager().snapshotExists(number) or tags[number][1] - gone != {name}:
        return []
    store, snapshot = table.store(), tags.pop(number)[0]
    with references.reading():
        own = contents_of(guard, store, snapshot)
        others = list(states_beside(table, number, {key: found[0] for key, found in tags.items()}))
    for other_store, other in others:
        guard.job.check()
        with references.reading():
            kept = contents_of(guard, other_store, other)
        own.data.difference_update(kept.data)
        own.metadata.difference_update(kept.metadata)
    remove_named(own, changelogs.read(table))
    location = str(table.location().toString())
    return [*data_paths(store, snapshot, own.data), *(f"{location}/{one}" for one in sorted(own.metadata))]


def remove_named(own: Contents, used: set[str]) -> None:
    """A changelog outlives its snapshot, and reads data files that only a tag has beside it."""
    own.data.difference_update(used)
    own.metadata.difference_update({one for one in own.metadata if one.rpartition("/")[2] in used})


def tagged(table: Any) -> Iterator[tuple[int, tuple[Any, set[str]]]]:
    """Number of a snapshot, the snapshot itself, and the names of its tags."""
    for entry in table.tagManager().tags().entrySet():
        yield int(entry.getKey().id()), (entry.getKey(), {str(name) for name in entry.getValue()})


def states_beside(table: Any, number: int, tags: dict[int, Any]) -> Iterator[tuple[Any, Any]]:
    """All that could share a file with a tag: a file is in the table from one snapshot to another without a gap.

    So the nearest tags and the oldest snapshot are enough; the newest is never expired by others while we read.
    """
    store, manager = table.store(), table.snapshotManager()
    near = [
        max((one for one in tags if one < number), default=None),
        min((o for o in tags if o > number), default=None),
    ]
    yield from ((store, tags[one]) for one in near if one is not None)
    yield from ((store, one) for one in (manager.earliestSnapshot(), manager.latestSnapshot()) if one is not None)
    for branch in table.branchManager().branches():
        own = table.switchToBranch(branch)
        yield from ((own.store(), root) for root in references.roots(own))


def contents_of(guard: TableGuard, store: Any, snapshot: Any) -> Contents:
    guard.check_snapshot(store, snapshot)
    counts: Counter[str] = Counter()
    metadata: set[str] = set()
    lists, manifests = store.manifestListFactory().create(), store.manifestFileFactory().create()
    for listed in (str(snapshot.baseManifestList()), str(snapshot.deltaManifestList())):
        metadata.add(f"manifest/{listed}")
        for meta in references.check_whole(store, listed, lists.readWithIOException(listed)):
            manifest = str(meta.fileName())
            metadata.add(f"manifest/{manifest}")
            entries = manifests.readWithIOException(manifest)
            references.check_count(manifest, entries.size(), meta.numAddedFiles() + meta.numDeletedFiles())
            count_files(guard, manifest, entries, counts)
    metadata |= index_names(guard, store, snapshot)
    return Contents({name for name, count in counts.items() if count > 0}, metadata)


def count_files(guard: TableGuard, manifest: str, entries: Any, counts: Counter[str]) -> None:
    """A file that was added more often than deleted is there: one that changes its level is both at once."""
    kinds, names = guard.target.texts(entries, "kind"), names_of(guard.target, entries, manifest, "file", "fileName")
    for kind, name in zip(kinds, names, strict=True):
        counts[name] += 1 if kind == "ADD" else -1


def index_names(guard: TableGuard, store: Any, snapshot: Any) -> set[str]:
    found = {f"statistics/{snapshot.statistics()}"} if snapshot.statistics() else set()
    if index := snapshot.indexManifest():
        entries = store.newIndexFileHandler().readManifestWithIOException(index)
        references.check_whole(store, index, entries)
        names = names_of(guard.target, entries, index, "indexFile", "fileName")
        found |= {f"manifest/{index}", *(f"index/{name}" for name in names)}
    return found


def data_paths(store: Any, snapshot: Any, names: set[str]) -> Iterator[str]:
    for entry in store.newScan().withSnapshot(snapshot).plan().files() if names else ():
        if entry.file().fileName() in names:
            factory = store.pathFactory().createDataFilePathFactory(entry.partition(), entry.bucket())
            for name in (entry.file().fileName(), *entry.file().extraFiles()):
                yield str(factory.toPath(name).toString())
