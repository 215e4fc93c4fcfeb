# SPDX-License-Identifier: Apache-2.0
"""Deletes tags whose time is over, with the files that only they keep; never one that was changed or a branch needs.

Paimon 0.9 has no procedure for it, and its own deletion of a tag knows nothing of branches, and takes a list that it
cannot read for an empty one. Here all that is compared is read whole, or nothing is deleted.
"""

import hashlib
import json
import re
from calendar import timegm
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from lakehand.jobs.job import Job
from lakehand.jobs.paimon import references
from lakehand.jobs.paimon.outside import TableGuard, names_of, refuse_odd_names
from lakehand.jobs.paimon.references import ChangelogNames, delta_lists, roots
from lakehand.jobs.paimon.remove_orphans import delete
from lakehand.jobs.paimon.tables import target_of
from lakehand.jobs.safety import BelowFloor, UnsafeRequest, cut_off, would_delete
from lakehand.jobs.spark import list_folder, read_file

LEAST_HOURS = 24  # after its time is over, whatever the parameters say
LEAST_AUTOMATIC = 7
NUMBER = "number"  # why an automatic tag goes; all others have a time of their own
_AUTOMATIC = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}( [0-9]{2})?")


class AskedTag(NamedTuple):
    name: str
    sign: str
    why: str

    @property
    def file(self) -> str:
        return f"tag-{self.name}"


def run(job: Job) -> dict[str, Any]:
    work = TagDeletion(job)
    for tag in asked_tags(job.parameters):
        job.check()
        job.phase(f"reading what only the tag {tag.name} keeps")
        work.handle(tag)
    return work.report()


class TagDeletion:
    """One tag after the other: what only it keeps is known before it goes."""

    def __init__(self, job: Job) -> None:
        self.job, self.guard = job, TableGuard(job, target_of(job))
        self.is_dry = job.parameters.get("dry_run") is True
        self.changelogs = ChangelogNames(self.guard)
        self.gone: set[str] = set()
        self.kept: dict[str, str] = {}
        self.listed: list[str] = []
        self.deleted_files = 0

    def handle(self, tag: AskedTag) -> None:
        table = self.guard.check()
        if self.is_kept(table, tag):
            return
        files = files_only_of(self.guard, table, tag.name, self.gone, self.changelogs)
        self.job.boundary.refuse_outside(files, doing="delete")
        if self.is_dry:
            self.gone.add(tag.name)
            self.listed += [str(table.tagManager().tagPath(tag.name).toString()), *files]
        else:
            self.delete(tag, files)

    def delete(self, tag: AskedTag, files: list[str]) -> None:
        """The tag first: files that a killed attempt leaves belong to nobody, and are found as orphans."""
        self.job.check()
        self.job.phase(f"deleting the tag {tag.name}")
        table = self.guard.check()
        if self.is_kept(table, tag):
            return
        delete_tag(table, tag.name)
        self.gone.add(tag.name)
        self.job.note("deleted_tags", sorted(self.gone))
        paths = self.guard.target.jvm.org.apache.paimon.fs.Path
        self.deleted_files += delete(self.job, table, [paths(one) for one in files])

    def is_kept(self, table: Any, tag: AskedTag) -> bool:
        why = why_kept(self.job, table, tag)
        self.kept.update({tag.name: why} if why else {})
        return bool(why)

    def report(self) -> dict[str, Any]:
        if self.is_dry:
            return {**would_delete(self.listed), "would_expire": sorted(self.gone), "kept": self.kept}
        return {"deleted_tags": sorted(self.gone), "deleted_files": self.deleted_files, "kept": self.kept}


def asked_tags(parameters: dict[str, Any]) -> list[AskedTag]:
    try:
        tags = [AskedTag(str(one["name"]), str(one["sign"]), str(one["why"])) for one in parameters["tags"]]
    except (KeyError, TypeError) as error:
        raise UnsafeRequest(f"the work does not say which tags to delete: {error!r}") from None
    refuse_odd_names((tag.file for tag in tags), "the work")
    return tags


def why_kept(job: Job, table: Any, tag: AskedTag) -> str:
    """Why a tag stays; empty: it may go. Raises when it is one that must never go."""
    folder = f"{job.boundary.real}/tag"
    there = [one.name for one in list_folder(job.session, folder)]
    if tag.file not in there:
        return "it is gone already"
    data = read_file(job.session, f"{folder}/{tag.file}")
    if hashlib.sha256(data).hexdigest() != tag.sign:
        return "somebody has changed it since"
    document = json.loads(data)
    refuse_young(tag, document, there)
    for branch in table.branchManager().branches():
        if str(document.get("deltaManifestList")) in delta_lists(roots(table.switchToBranch(branch))):
            return f"the branch {branch} began there"
    return ""


def refuse_young(tag: AskedTag, document: dict[str, Any], there: list[str]) -> None:
    if tag.why == NUMBER:
        newer = [one for one in there if one > tag.file and _AUTOMATIC.fullmatch(one.removeprefix("tag-"))]
        if "tagTimeRetained" in document or not _AUTOMATIC.fullmatch(tag.name) or len(newer) < LEAST_AUTOMATIC:
            raise BelowFloor(f"the tag {tag.name} is not an automatic one, or among the last {LEAST_AUTOMATIC}")
        cut_off(int(document["timeMillis"]), LEAST_HOURS)
        return
    created, retained = document.get("tagCreateTime"), document.get("tagTimeRetained")
    if not isinstance(created, list) or not isinstance(retained, (int, float)):
        raise BelowFloor(f"the tag {tag.name} has no time of its own: it is never deleted")
    began = timegm((*created, 0, 0, 0)[:9])
    cut_off(int((began + retained) * 1000), LEAST_HOURS)


def delete_tag(table: Any, name: str) -> None:
    """With the callbacks of the table, as Paimon does it."""
    table.fileIO().delete(table.tagManager().tagPath(name), False)
    for callback in table.store().createTagCallbacks():
        with closing(callback):
            callback.notifyDeletion(name)


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
