# SPDX-License-Identifier: Apache-2.0
"""Expires the snapshots that were named, if they may go, and deletes what only they referred to.

Not Iceberg's own action: that follows the table's properties and references' ages, which may say less than our limits.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from lakehand.jobs.iceberg import commits, deletions, manifest_integrity, neighbours, outside, reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, cut_off

LEAST_HOURS = 24
TRIES = 5
FLINK_JOB = "flink.job-id"
FLINK_OPERATOR = "flink.operator-id"


def run(job: Job) -> dict[str, Any]:
    job.phase("reading the table")
    table = tables.load(job)
    tables.refuse_shared(table)
    nested = neighbours.nested_tables(job, table)
    oldest = cut_off(job.parameters.get("older_than"), LEAST_HOURS)
    asked, least = job.parameters.get("expire"), job.parameters.get("min_snapshots") or 1
    manifest_integrity.refuse_cut_off(job, table, listed_metadata(job, table))
    for _ in range(TRIES):
        base = table.operations().refresh()
        gone, kept = chosen(tables.document(job.session, base), asked, oldest, least)
        told: dict[str, Any] = {"expired": gone, "kept": kept}
        after = without(job, base, gone)
        if job.parameters.get("dry_run"):
            return {**told, **would_sweep(job, table, unreferenced(job, table, base, imagined(base, after)), nested)}
        if not gone:
            return {**told, "deleted_files": 0}
        job.check()
        job.phase(f"expiring {len(gone)} snapshots")
        commits.check_commit(job, table)
        if committed(table, base, after.build()):
            return {**told, **swept(job, table, base, nested)}
    raise CommitConflict(f"writers were faster {TRIES} times")


def listed_metadata(job: Job, table: Any) -> DataFrame:
    folder = str(table.operations().current().metadataFileLocation()).rpartition("/")[0]
    return reachable.listing(job, table, folder)


class CommitConflict(Exception):
    """Someone else committed between our reading and our writing."""


def chosen(document: dict[str, Any], asked: Any, oldest: int, least: int) -> tuple[list[int], list[int]]:
    """Of the snapshots that were asked for: those that may go, and those that are there and stay."""
    if not isinstance(asked, (list, tuple)) or not all(type(one) is int for one in asked):
        raise UnsafeRequest("the snapshots to expire are no list of numbers")
    known = {one["snapshot-id"]: one for one in document.get("snapshots") or []}
    held = holders(document, known, least)
    there = [one for one in asked if one in known]
    gone = [one for one in there if one not in held and known[one]["timestamp-ms"] < oldest]
    if known and len(set(gone)) >= len(known):
        raise UnsafeRequest("no snapshot would be left")
    return gone, [one for one in there if one not in gone]


def holders(document: dict[str, Any], known: dict[int, dict[str, Any]], least: int) -> set[int]:
    """What branches, tags and the newest checkpoint of each Flink job point to; of a branch, so many at least."""
    held = {document.get("current-snapshot-id") or -1}
    for ref in (document.get("refs") or {}).values():
        held.update(islice(line(known, ref["snapshot-id"]), least if ref["type"] == "branch" else 1))
    newest: dict[tuple[str, str], int] = {}
    for one in sorted(known.values(), key=lambda one: one["timestamp-ms"]):
        summary = one.get("summary") or {}
        if flink := summary.get(FLINK_JOB):
            newest[flink, summary.get(FLINK_OPERATOR, "")] = one["snapshot-id"]
    return held | set(newest.values())


def line(known: dict[int, dict[str, Any]], head: int | None) -> Iterator[int]:
    """A snapshot and its ancestors, as far as they are known."""
    while head in known:
        yield head
        head = known[head].get("parent-snapshot-id")


def without(job: Job, base: Any, gone: list[int]) -> Any:
    """The builder of the metadata that is to come."""
    jvm = tables.java(job.session)
    numbers = jvm.java.util.HashSet()
    for one in gone:
        numbers.add(jvm.java.lang.Long.valueOf(str(one)))
    return jvm.org.apache.iceberg.TableMetadata.buildFrom(base).removeSnapshots(numbers)


def committed(table: Any, base: Any, after: Any) -> bool:
    try:
        table.operations().commit(base, after)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "CommitFailedException":
            return False
        raise
    return True


def imagined(base: Any, after: Any) -> Any:
    """The metadata to come, as if it had been written: Spark wants to know a file for it."""
    return after.discardChanges().withMetadataLocation(base.metadataFileLocation()).build()


def swept(job: Job, table: Any, base: Any, nested: tuple[str, ...]) -> dict[str, Any]:
    """Delete what the old metadata refers to and the new does not. Whatever stops us here leaves orphans, no more."""
    job.phase("looking for files that nothing refers to any more")
    now = table.operations().refresh()
    files = unreferenced(job, table, base, now).localCheckpoint(eager=True)
    job.phase("checking that the files are the table's")
    tables.load(job)
    ours = outside.inside(job, table, nested)
    told = outside.left(files.where(~ours))
    return {"deleted_files": deletions.delete(job, table, files.where(ours), "expired"), **told}


def would_sweep(job: Job, table: Any, files: DataFrame, nested: tuple[str, ...]) -> dict[str, Any]:
    files, ours = files.localCheckpoint(eager=True), outside.inside(job, table, nested)
    return {**deletions.would_delete(files.where(ours)), **outside.left(files.where(~ours))}


def unreferenced(job: Job, table: Any, before: Any, after: Any) -> DataFrame:
    """By path alone, so that no spelling of a live file makes it look unneeded; twice if two buckets have the path."""
    old, new = (reachable.content(job, fixed(job, table, metadata)) for metadata in (before, after))
    live = new.select("key").distinct().localCheckpoint(eager=True)
    outside.refuse_other_spellings(job, live)
    one_each = old.withColumn("spelled", outside.spelled("path")).dropDuplicates(["spelled"])
    return one_each.join(live, "key", "left_anti").select("path")


def fixed(job: Job, table: Any, metadata: Any) -> Any:
    """The table as one state of its metadata shows it."""
    iceberg = tables.java(job.session).org.apache.iceberg
    return iceberg.BaseTable(iceberg.StaticTableOperations(metadata, table.io()), table.name())
