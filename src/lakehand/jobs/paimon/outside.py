# SPDX-License-Identifier: Apache-2.0
"""Keeps a Paimon job inside its table.

Paimon joins the file names in its metadata to the table's path and follows ``..`` in them, and whole paths of data
files. An expiry deletes, and a compaction reads, whatever a snapshot, a manifest list or a manifest names. Options of
the schema move the data, too. Here every name must be a plain one, and every option must stay inside.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paimon.tables import Target
from lakehand.jobs.paths import canonical
from lakehand.jobs.spark import ListedFile, list_folder, read_file

SCHEMA, PATH, BRANCH, MAIN = "schema", "path", "branch", "main"
# Paimon 0.9 does not know these options, and would search for the table's files where they are not.
NEWER = ("data-file.path-directory", "data-file.external-paths", "global-index.external-path", "object-location")
FREE = ("fields.", "comment")  # values that are data, not settings
_BRANCH = re.compile(r"branch/branch-[^/]+")
_SCHEMA = re.compile(r"schema-[0-9]+")
_WHOLE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_BETWEEN = re.compile(r"[,;\s]+")


class TableGuard:
    """Checks what a job is about to use. Manifests that were checked once are not read again."""

    def __init__(self, job: Job, target: Target) -> None:
        self.job, self.target = job, target
        self.read: set[str] = set()

    def check(self, *, lists: bool = False) -> Any:
        """First of all, and right before each commit or delete. ``lists``: the action takes files by where they lie.

        Returns the table, which is opened only after its folder and schemas were checked.
        """
        boundary = self.job.boundary
        if lists:  # one walk over all files, by Hadoop's file systems: finds links and other tables
            boundary.check_path()
            files = boundary.files(self.target.session)
            boundary.refuse_tables_below("paimon", files, also_own=lambda folder: bool(_BRANCH.fullmatch(folder)))
        else:
            boundary.check()  # no walk over an object store
        check_schemas(self.job)
        table = self.target.load()
        real, found = canonical(boundary.real), boundary.real_path(str(table.location().toString()))
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
        lists, index = manifest_lists(snapshot), snapshot.indexManifest()
        refuse_odd_names([*lists, index, snapshot.statistics()], f"snapshot {snapshot.id()}")
        reader = store.manifestListFactory().create()
        for name in lists:
            if name not in self.read and reader.exists(name):
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
                entries = reader.readWithIOException(name)
                names_of(self.target, entries, name, "file", "fileName")
                refuse_odd_names(self.target.texts(entries, "file", "extraFiles"), name)


def manifest_lists(snapshot: Any) -> list[str]:
    names = (snapshot.baseManifestList(), snapshot.deltaManifestList(), snapshot.changelogManifestList())
    return [str(name) for name in names if name]


def check_schemas(job: Job) -> None:
    """The first schema is the table's identity; the options of all of them stay inside."""
    root, admitted = job.boundary.real, job.parameters.get("identity")
    own = schemas_in(job, f"{root}/{SCHEMA}")
    found = f"{own[0].name}:{hashlib.sha256(read_file(job.session, own[0].path)).hexdigest()}" if own else "none"
    if not isinstance(admitted, str) or not admitted:
        raise OutsideTable(f"the work does not say which table it was admitted for: {admitted!r}")
    job.boundary.refuse_other_table(found, admitted)
    branches = [one.path for one in list_folder(job.session, f"{root}/{BRANCH}") if one.name.startswith(f"{BRANCH}-")]
    for schema in [*own, *(one for branch in branches for one in schemas_in(job, f"{branch}/{SCHEMA}"))]:
        options = json.loads(read_file(job.session, schema.path)).get("options") or {}
        refuse_odd_options(job.boundary, options, schema.path)


def schemas_in(job: Job, folder: str) -> list[ListedFile]:
    """By their numbers."""
    found = [one for one in list_folder(job.session, folder) if _SCHEMA.fullmatch(one.name)]
    return sorted(found, key=lambda one: int(one.name.removeprefix(f"{SCHEMA}-")))


def refuse_odd_options(boundary: JobBoundary, options: Mapping[str, Any], where: str) -> None:
    """Options of a schema that place files outside of the table."""
    for key, value in ((key, str(value)) for key, value in options.items()):
        if why := why_odd(boundary, key, value):
            raise OutsideTable(
                f"{where} has the option {key}={value!r}, {why}: nothing is done to such a table. Remove the option"
            )


def why_odd(boundary: JobBoundary, key: str, value: str) -> str:
    if key == PATH and boundary.real_path(value) != canonical(boundary.real):
        return f"and the table is at {boundary.real}"
    if key == BRANCH and value != MAIN:
        return "which makes a branch the main line"
    if key.startswith(NEWER):
        return "which places files where Paimon 0.9 does not look for them"
    if not key.startswith(FREE) and any(not boundary.holds(path) for path in paths_in(value)):
        return "which leads out of the table"
    return ""


def paths_in(value: str) -> Iterator[str]:
    """Parts that look like paths: whole ones, and relative ones with ``..``."""
    for part in _BETWEEN.split(value):
        if _WHOLE.match(part) or ".." in part.split("/"):
            yield part


def names_of(target: Target, entries: Any, where: str, *calls: str) -> list[str]:
    """One plain name for each entry. A name that comes in pieces is none: it has commas or brackets in it."""
    names = target.texts(entries, *calls)
    refuse_odd_names(names, where)
    if len(names) != entries.size():
        raise OutsideTable(f"{where} has names that are not names of Paimon's: {entries.size()} come as {len(names)}")
    return names


def refuse_odd_names(names: Iterable[str | None], where: str) -> None:
    """A plain name is one step below its folder. Sound tables have no others: Paimon makes them up itself."""
    for name in names:
        if name and ("/" in name or "\\" in name or name in {".", ".."} or not name.isprintable()):
            raise OutsideTable(
                f"{where} names the file {name!r}, which would lead out of its folder: nothing is read, rewritten or"
                " deleted by such a table. Restore the metadata that was there before"
            )
