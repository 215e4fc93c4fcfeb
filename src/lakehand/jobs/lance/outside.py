# SPDX-License-Identifier: Apache-2.0
"""Keeps a Lance job inside its table.

Lance's clean-up follows links and deletes whatever lies in the folders that it lists, tables of others included. Where
the table's config says so, each commit cleans up, too. And a manifest may name other base paths, which a rewrite reads.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical, has_scheme

FORMAT = "lance"
AUTO_CLEANUP = "lance.auto_cleanup."  # keys of a table's config
DATA = "data/"
SHOWN = 3
_BRANCH = re.compile(r"_refs/branches/([^/]+)\.json")


def check_listing(boundary: JobBoundary, open_table: Callable[[], Any]) -> None:
    """Before Lance lists and deletes: neither links nor other tables below this one; its own branches may be there."""
    boundary.check_path()
    files = list(boundary.files(None) if boundary.is_local else files_in_store(open_table()))
    branches = {f"tree/{unquote(match[1])}" for file in files if (match := _BRANCH.fullmatch(file))}
    boundary.refuse_tables_below(FORMAT, files, also_own=branches.__contains__)


def check_commit(job: Job, open_table: Callable[[], Any]) -> None:
    """Right before a commit. One that cleans up, which Lance cannot be told to leave out, lists and deletes as well."""
    job.boundary.check()
    dataset = open_table()
    check_identity(job, dataset)
    if any(key.startswith(AUTO_CLEANUP) for key in dataset.config()):
        check_listing(job.boundary, open_table)


def check_identity(job: Job, dataset: Any) -> None:
    """A Lance table has no identity of its own. The transaction that made the version which was admitted comes near."""
    admitted = job.parameters.get("identity")
    if not isinstance(admitted, dict) or not isinstance(admitted.get("version"), int):
        raise OutsideTable(f"the work does not say which table it was admitted for: {admitted!r}")
    version = admitted["version"]
    found = {"version": version, "transaction": transaction_of(dataset, version)}
    job.boundary.refuse_other_table(found, admitted)


def transaction_of(dataset: Any, version: int) -> str:
    """The name of the transaction's file; empty for a version that is not there, or that an old writer made."""
    for row in tracked(dataset, version):
        if row["version"] == version and row["type"] == "transaction file":
            return str(row["path"]).rpartition("/")[2]
    return ""


def refuse_foreign_files(boundary: JobBoundary, dataset: Any) -> None:
    """Before a rewrite: data files, deletions and indices of this version are all the table's own."""
    boundary.refuse_outside(odd_files(boundary, tracked(dataset, dataset.version)), doing="rewrite")


def foreign_files(boundary: JobBoundary, dataset: Any) -> set[str]:
    """Files outside that any version names. Only a table with other base paths has some."""
    return set(boundary.outside(odd_files(boundary, tracked(dataset, 0)))) if dataset.base_paths() else set()


def left_outside(before: set[str], after: set[str]) -> dict[str, Any]:
    """What a clean-up reports of files that no version names any more, and that are not ours to delete."""
    left = sorted(before - after)
    if not left:
        return {}
    return {
        "left_outside": len(left),
        "left_outside_files": left[:SHOWN],
        "left_outside_reason": "other base paths of the table lie outside of it: nothing is deleted there",
    }


def tracked(dataset: Any, since: int) -> Iterator[dict[str, Any]]:
    for batch in dataset.tracked_files(min_version=since):
        yield from batch.to_pylist()


def odd_files(boundary: JobBoundary, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Whole paths of all but the plain files of the table's own folder, where the walk has found no link.

    A data file's name may look like a whole path itself: Lance 14 escapes it, and it is refused all the same.
    """
    own = canonical(boundary.real)
    for row in rows:
        base, path = str(row["base_uri"]), str(row["path"])
        name = path.removeprefix(DATA)
        is_whole = name.startswith("/") or has_scheme(name)
        if is_whole or ".." in path or canonical(base) != own:
            yield name if is_whole else f"{base}/{path}"


def candidates(uri: str, found: Any) -> list[str]:
    """Whole paths of the files that a clean-up would delete; Lance names them without the store."""
    place = canonical(uri)
    root = "/" if place.startswith("/") else "/".join(place.split("/")[:3]) + "/"
    return [root + file.path.lstrip("/") for file in found.candidate_files]


def files_in_store(dataset: Any) -> Iterator[str]:
    """By Lance's own client, which has the credentials."""
    for batch in dataset.all_files():
        yield from batch.column("path").to_pylist()
