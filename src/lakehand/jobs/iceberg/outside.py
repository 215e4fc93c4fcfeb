# SPDX-License-Identifier: Apache-2.0
"""Keeps rewrites and deletions inside the table: away from files that are not its own, and from tables below it.

A path counts as the table's when it is spelled below the table's location or below an extra location. On local disks a
link could lead it elsewhere: the boundary has refused links below the table, and each deletion follows links again.
"""

import re
from collections.abc import Iterator
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs import safety
from lakehand.jobs.boundary import OutsideTable, tables_marked_by
from lakehand.jobs.iceberg import reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.paths import ALIASES, canonical, path_part
from lakehand.jobs.spark import jvm

BATCH = 1000
SHOWN = 10
SCHEME = r"^([A-Za-z][A-Za-z0-9+.-]*):(//([^/]*))?"
WHY = (
    "the metadata names them outside of the table's location; if they belong to this table alone, an operator can name"
    " their folder in its property extra-locations"
)
LISTS_PREFIXES = "org.apache.iceberg.io.SupportsPrefixOperations"
# A timeline without its properties file, from a writer that died early, has data files beside it all the same.
HUDI = re.compile(r"((?:.*/)?\.hoodie/)[^/]+")


def spelled(column: str) -> Column:
    """What ``canonical`` makes of a path, as Spark computes it: with its bucket, and one name for each scheme."""
    whole = sql.col(column)
    scheme = sql.lower(sql.regexp_extract(whole, SCHEME, 1))
    for alias, name in ALIASES.items():
        scheme = sql.when(scheme == alias, name).otherwise(scheme)
    path = sql.regexp_replace(sql.regexp_replace(whole, SCHEME, ""), "/+", "/")
    remote = sql.concat(scheme, sql.lit("://"), sql.regexp_extract(whole, SCHEME, 3), path)
    return sql.when(scheme.isin("", "file"), path).otherwise(remote)


def is_inside(job: Job, table: Any, nested: tuple[str, ...] = ()) -> Column:
    """Whether ``path`` is the table's own. ``nested``: folders below the table that belong to other tables."""
    key, boundary = spelled("path"), job.boundary
    ours = (boundary.real, boundary.location, str(table.location()), *boundary.extra)
    return below(key, ours) & ~key.rlike(r"/\.\.(/|$)") & ~below(key, nested)


def below(key: Column, prefixes: tuple[str, ...]) -> Column:
    tests = [key.startswith(canonical(prefix).rstrip("/") + "/") for prefix in sorted(set(prefixes))]
    return reduce(or_, tests, sql.lit(False))


def refuse_foreign_files(job: Job, table: Any, snapshot: int | None = None) -> None:
    """A rewrite would copy what it reads into the table, so all that the snapshot names must be the table's.

    The current one, unless another is named.
    """
    if foreign := snapshot_files(job, table, snapshot).where(~is_inside(job, table)).limit(SHOWN).collect():
        names = ", ".join(row.path for row in foreign)
        raise OutsideTable(f"not ours to rewrite: {names} (at most {SHOWN} are shown): {WHY}")


def snapshot_files(job: Job, table: Any, snapshot: int | None) -> DataFrame:
    """Data, deletes and manifests of a snapshot, its list of manifests, and all statistics."""
    session = job.session
    files = reachable.metadata_table(session, table, "FILES", snapshot).selectExpr("file_path AS path")
    manifests = reachable.metadata_table(session, table, "MANIFESTS", snapshot).select("path")
    named = reachable.statistics(tables.document(session, table.operations().current()))
    chosen = table.currentSnapshot() if snapshot is None else table.snapshot(snapshot)
    if listed := chosen.manifestListLocation():
        named.append(str(listed))
    return reachable.texts(session, named).unionAll(manifests).unionAll(files)


def refuse_other_spellings(job: Job, live: DataFrame) -> None:
    """Refuse when live files are spelled through a link that leads into the table: as text they look like others."""
    if not job.boundary.is_local:
        return
    others = live.where(~sql.col("key").startswith(f"{job.boundary.real}/"))
    for row in others.selectExpr("regexp_replace(key, '/[^/]*$', '') folder").distinct().toLocalIterator():
        real = job.boundary.real_path(row.folder or "/")
        if real is None or (real != row.folder and job.boundary.holds(real)):
            raise safety.UnsafeRequest(
                f"the table's metadata seems to spell paths differently: {row.folder} leads to {real}"
            )


def refuse_tables_below(job: Job, table: Any) -> None:
    """For what lists folders: it would take the files of a nested table for orphans of ours."""
    own = own_metadata(job, table)
    job.boundary.refuse_tables_below("iceberg", marked_files(job, table), also_own=lambda folder: folder == own)


def nested_tables(job: Job, table: Any) -> tuple[str, ...]:
    """Folders of tables below this one, for what deletes by name; another format in our own folder is refused.

    Some tools give one folder two formats: the other one's history still needs what ours has replaced.
    """
    own = own_metadata(job, table)
    found: set[str] = set()
    for file in marked_files(job, table):
        for folder, _ in tables_marked_by(file):
            if not folder:
                job.boundary.refuse_tables_below("iceberg", [file])
            elif folder != own:
                found.add(folder)
    return tuple(f"{job.boundary.real}/{folder}" for folder in sorted(found))


def own_metadata(job: Job, table: Any) -> str:
    """The folder, relative to the table, that looks like a nested table because our own metadata is there."""
    above, _, name = tables.real_location(tables.metadata_folder(table)).rpartition("/")
    root = tables.real_location(job.boundary.real)
    return above.removeprefix(f"{root}/") if name == "metadata" and above.startswith(f"{root}/") else ""


def marked_files(job: Job, table: Any) -> Iterator[str]:
    """All files below the table, hidden ones too, through its own file access: on S3 that may be the only one."""
    gateway: Any = job.session.sparkContext._gateway
    is_ours = job.boundary.is_local or not is_instance_of(gateway, table.io(), LISTS_PREFIXES)
    for file in job.boundary.files(job.session) if is_ours else list_prefix(table.io(), job.boundary.real):
        yield file
        if match := HUDI.fullmatch(file):
            yield f"{match[1]}hoodie.properties"


def list_prefix(io: Any, root: str) -> Iterator[str]:
    start = len(path_part(root)) + 1
    for found in io.listPrefix(root.rstrip("/") + "/").iterator():
        yield path_part(str(found.location()))[start:]


def would_delete(files: DataFrame) -> dict[str, Any]:
    """What a dry run reports, with bytes if the frame has a column ``length``."""
    names = [row.path for row in files.select("path").orderBy("path").limit(safety.LISTED).collect()]
    size = total_bytes(files) if "length" in files.columns else None
    return safety.would_delete(names, files.count(), size)


def total_bytes(files: DataFrame) -> int:
    return int(files.agg(sql.sum("length")).first()[0] or 0)  # type: ignore[index]


def left_outside(files: DataFrame) -> dict[str, Any]:
    names = [row.path for row in files.select("path").orderBy("path").limit(SHOWN).collect()]
    return safety.left_outside(files.count(), names, WHY)


def delete(job: Job, table: Any, files: DataFrame, kind: str) -> int:
    """Delete in batches, through the table's own file access, so that it needs no other rights than the table does.

    The caller has left out what is not the table's. A path that leads outside all the same goes through a new link,
    and ends the job.
    """
    gone, java = 0, jvm(job.session)
    paths = (row.path for row in files.select("path").toLocalIterator())
    while batch := list(islice(paths, BATCH)):
        job.check()
        job.boundary.check_path()
        job.boundary.refuse_outside(batch, doing="delete")
        names = java.java.util.ArrayList()
        for path in batch:
            names.add(path)
        java.org.apache.iceberg.CatalogUtil.deleteFiles(table.io(), names, kind, True)
        gone += len(batch)
        job.phase(f"deleted {gone} {kind} files")
    return gone
