# SPDX-License-Identifier: Apache-2.0
"""Files that the metadata names and that are not the table's: never rewritten, never deleted; found by Spark.

A path counts as the table's when it is spelled below the table's location or below an extra location. On local disks a
link could lead it elsewhere: the boundary has refused links below the table, and each deletion follows links again.
"""

from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.iceberg import reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.paths import ALIASES, canonical
from lakehand.jobs.safety import UnsafeRequest

SHOWN = 10
SCHEME = r"^([A-Za-z][A-Za-z0-9+.-]*):(//([^/]*))?"
WHY = (
    "the metadata names them outside of the table's location; if they belong to this table alone, an operator can name"
    " their folder in its property extra-locations"
)


def spelled(column: str) -> Column:
    """What ``canonical`` makes of a path, as Spark computes it: with its bucket, and one name for each scheme."""
    whole = sql.col(column)
    scheme = sql.lower(sql.regexp_extract(whole, SCHEME, 1))
    for alias, name in ALIASES.items():
        scheme = sql.when(scheme == alias, name).otherwise(scheme)
    path = sql.regexp_replace(sql.regexp_replace(whole, SCHEME, ""), "/+", "/")
    remote = sql.concat(scheme, sql.lit("://"), sql.regexp_extract(whole, SCHEME, 3), path)
    return sql.when(scheme.isin("", "file"), path).otherwise(remote)


def inside(job: Job, table: Any, nested: tuple[str, ...] = (), column: str = "path") -> Column:
    """Whether a path is the table's own. ``nested``: folders below the table that belong to other tables."""
    key, boundary = spelled(column), job.boundary
    ours = (boundary.real, boundary.location, str(table.location()), *boundary.extra)
    return below(key, ours) & ~key.rlike(r"/\.\.(/|$)") & ~below(key, nested)


def below(key: Column, prefixes: tuple[str, ...]) -> Column:
    tests = [key.startswith(canonical(prefix).rstrip("/") + "/") for prefix in sorted(set(prefixes))]
    return reduce(or_, tests, sql.lit(False))


def left(files: DataFrame) -> dict[str, Any]:
    """What the result says about files that were not touched."""
    count = files.count()
    if not count:
        return {}
    names = [row.path for row in files.select("path").orderBy("path").limit(SHOWN).collect()]
    return {"left_outside": count, "left_outside_files": names, "left_outside_why": WHY}


def refuse_foreign_files(job: Job, table: Any) -> None:
    """A rewrite would copy what it reads into the table, so all that the current snapshot names must be the table's."""
    named = current_files(job, table)
    foreign = named.where(~inside(job, table)).limit(SHOWN).collect()
    if foreign:
        names = ", ".join(row.path for row in foreign)
        raise OutsideTable(f"not ours to rewrite: {names} (at most {SHOWN} are shown): {WHY}")


def current_files(job: Job, table: Any) -> DataFrame:
    """Data, deletes and manifests of the current snapshot, its list of manifests, and statistics."""
    session = job.session
    files = reachable.metadata_table(session, table, "FILES").selectExpr("file_path AS path")
    manifests = reachable.metadata_table(session, table, "MANIFESTS").select("path")
    named = [*reachable.statistics(tables.document(session, table.operations().current()))]
    if listed := table.currentSnapshot().manifestListLocation():
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
            raise UnsafeRequest(f"the table's metadata seems to spell paths differently: {row.folder} leads to {real}")
