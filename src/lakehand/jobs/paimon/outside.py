# SPDX-License-Identifier: Apache-2.0
"""Keeps a Paimon job inside its table.

Paimon joins the file names in its metadata to the table's path and follows ``..`` in them, and whole paths of data
files. An expiry deletes, and a compaction reads, whatever a snapshot, a manifest list or a manifest names. Options of
the schema move the data, too. Here every name must be a plain one, and every option must stay inside.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paimon.options import refuse_odd_options
from lakehand.jobs.paimon.tables import Target
from lakehand.jobs.paths import canonical

FORMAT = "paimon"
SCHEMA, BRANCH = "schema", "branch"
_BRANCH = re.compile(r"branch/branch-[^/]+")


class TableGuard:
    """Looks at what a job is about to use. Manifests that were looked at once are not read again."""

    def __init__(self, job: Job, target: Target) -> None:
        self.job, self.target = job, target
        self.read: set[str] = set()

    @property
    def boundary(self) -> JobBoundary:
        return self.job.boundary

    def check(self, *, lists: bool = False) -> Any:
        """First of all, and right before each commit or delete. ``lists``: the action takes files by where they lie.

        Answers with the table, which is opened only after its folder was looked at.
        """
        check_folder(self.boundary, self.target, lists=lists)
        table = self.target.load()
        check_schemas(self.job, self.target, table)
        real, found = canonical(self.boundary.real), self.boundary.real_path(str(table.location().toString()))
        if found != real:
            raise OutsideTable(f"Paimon finds this table at {found}, and the work was admitted for {real}")
        return table

    def check_newest(self, table: Any) -> None:
        """Before a rewrite: what the newest snapshot and its manifests name."""
        newest = table.snapshotManager().latestSnapshot()
        if newest is not None:
            self.check_snapshot(table.store(), newest)

    def check_history(self, table: Any, first: int, last: int) -> None:
        """Before an expiry: what these snapshots name."""
        manager, store = table.snapshotManager(), table.store()
        for number in range(first, last + 1):
            if manager.snapshotExists(number):
                self.check_snapshot(store, manager.snapshot(number))

    def check_snapshot(self, store: Any, snapshot: Any) -> None:
        where = f"snapshot {snapshot.id()}"
        lists = [snapshot.baseManifestList(), snapshot.deltaManifestList(), snapshot.changelogManifestList()]
        index = snapshot.indexManifest()
        refuse_odd_names([*lists, index, snapshot.statistics()], where)
        reader = store.manifestListFactory().create()
        for name in lists:
            if name and name not in self.read and reader.exists(name):
                self.read.add(name)
                self.check_manifests(store, name, reader.readWithIOException(name))
        if index and index not in self.read and store.newIndexFileHandler().existsManifest(index):
            self.read.add(index)
            entries = store.newIndexFileHandler().readManifestWithIOException(index)
            names_of(self.target, entries, index, "indexFile", "fileName")

    def check_manifests(self, store: Any, listed_in: str, metas: Any) -> None:
        reader = store.manifestFileFactory().create()
        for name in names_of(self.target, metas, listed_in, "fileName"):
            if name not in self.read and reader.exists(name):
                self.read.add(name)
                refuse_odd_entries(self.target, reader.readWithIOException(name), name)


def check_folder(boundary: JobBoundary, target: Target, *, lists: bool) -> None:
    """One walk over all files serves both checks; where nothing is listed, an object store is not walked at all."""
    if not lists:
        boundary.check()
        return
    boundary.check_path()
    files = boundary.files(target.session)  # by Hadoop's file systems: the table is not opened yet
    boundary.refuse_tables_below(FORMAT, files, also_own=lambda folder: bool(_BRANCH.fullmatch(folder)))


def check_schemas(job: Job, target: Target, table: Any) -> None:
    """The first schema is the table's identity; the options of all of them stay inside."""
    root = job.boundary.real
    own = numbered(names_in(target, table, f"{root}/{SCHEMA}"))
    branches = [name for name in names_in(target, table, f"{root}/{BRANCH}") if name.startswith(f"{BRANCH}-")]
    first = content(target, table, f"{root}/{SCHEMA}/{SCHEMA}-{own[0]}") if own else b""
    found = f"{SCHEMA}-{own[0]}:{hashlib.sha256(first).hexdigest()}" if own else "none"
    admitted = job.parameters.get("identity")
    if not isinstance(admitted, str) or not admitted:
        raise OutsideTable(f"the work does not say which table it was admitted for: {admitted!r}")
    job.boundary.refuse_other_table(found, admitted)
    for folder in [SCHEMA, *(f"{BRANCH}/{name}/{SCHEMA}" for name in branches)]:
        for number in numbered(names_in(target, table, f"{root}/{folder}")):
            path = f"{root}/{folder}/{SCHEMA}-{number}"
            refuse_odd_options(job.boundary, options_of(content(target, table, path)), path)


def options_of(data: bytes) -> dict[str, str]:
    found = json.loads(data).get("options") or {}
    return {str(key): str(value) for key, value in found.items()}


def refuse_odd_entries(target: Target, entries: Any, where: str) -> None:
    names_of(target, entries, where, "file", "fileName")
    refuse_odd_names(target.texts(entries, "file", "extraFiles"), where)


def names_of(target: Target, entries: Any, where: str, *calls: str) -> list[str]:
    """One plain name for each entry. A name that comes in pieces is none: it has commas or brackets in it."""
    names = target.texts(entries, *calls)
    refuse_odd_names(names, where)
    if len(names) != entries.size():
        raise OutsideTable(f"{where} has names that are no names of Paimon's: {entries.size()} come as {len(names)}")
    return names


def refuse_odd_names(names: Iterable[str | None], where: str) -> None:
    """A plain name is one step below its folder. Sound tables have no others: Paimon makes them up itself."""
    for name in names:
        if name and ("/" in name or "\\" in name or name in {".", ".."} or not name.isprintable()):
            raise OutsideTable(
                f"{where} names the file {name!r}, which would lead out of its folder: nothing is read, rewritten or"
                " deleted by such a table. Restore the metadata that was there before"
            )


def numbered(names: Iterable[str]) -> list[int]:
    found = (name.removeprefix(f"{SCHEMA}-") for name in names if name.startswith(f"{SCHEMA}-"))
    return sorted(int(name) for name in found if name.isdigit())


def names_in(target: Target, table: Any, folder: str) -> list[str]:
    path, files = target.jvm.org.apache.paimon.fs.Path(folder), table.fileIO()
    return [one.getPath().getName() for one in files.listStatus(path)] if files.exists(path) else []


def content(target: Target, table: Any, path: str) -> bytes:
    stream = table.fileIO().newInputStream(target.jvm.org.apache.paimon.fs.Path(path))
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()
