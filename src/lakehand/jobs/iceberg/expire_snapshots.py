# SPDX-License-Identifier: Apache-2.0
"""Expires the snapshots that were named, if they may go, and deletes what only they referred to.

Not Iceberg's own action: that follows the table's properties and references' ages, which may say less than our limits.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from lakehand.jobs.iceberg import outside, reachable, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, cut_off
from lakehand.jobs.spark import jvm

LEAST_HOURS = 24
ATTEMPTS = 5
FLINK_JOB = "flink.job-id"
FLINK_OPERATOR = "flink.operator-id"


class CommitConflict(Exception):
    """Someone else committed between our reading and our writing."""


def run(job: Job) -> dict[str, Any]:
    job.phase("reading the table")
    table = tables.load(job)
    tables.refuse_shared(table)
    nested = outside.nested_tables(job, table)
    oldest = cut_off(job.parameters.get("older_than"), LEAST_HOURS)
    asked, least = job.parameters.get("expire"), job.parameters.get("min_snapshots") or 1
    reachable.refuse_cut_off(job, table, reachable.listing(job, table, tables.metadata_folder(table)))
    for _ in range(ATTEMPTS):
        base = table.operations().refresh()
        gone, kept = choose(tables.document(job.session, base), asked, oldest, least)
        result: dict[str, Any] = {"expired": gone, "kept": kept}
        after = without(job, base, gone)
        if job.parameters.get("dry_run"):
            files, ours = unreferenced_files(job, table, base, as_written(base, after), nested)
            return {**result, **outside.would_delete(files.where(ours)), **outside.left_outside(files.where(~ours))}
        if not gone:
            return {**result, "deleted_files": 0}
        job.check()
        job.phase(f"expiring {len(gone)} snapshots")
        tables.check_commit(job, table)
        if commit(table, base, after.build()):
            return {**result, **delete_unreferenced(job, table, base, nested)}
    raise CommitConflict(f"writers were faster {ATTEMPTS} times")


def choose(document: dict[str, Any], asked: Any, oldest: int, least: int) -> tuple[list[int], list[int]]:
    """Of the snapshots that were asked for: those that may go, and those that are there and stay."""
    if not isinstance(asked, (list, tuple)) or not all(type(one) is int for one in asked):
        raise UnsafeRequest("the snapshots to expire are not a list of numbers")
    known = {one["snapshot-id"]: one for one in document.get("snapshots") or []}
    held = held_snapshots(document, known, least)
    there = [one for one in asked if one in known]
    gone = [one for one in there if one not in held and known[one]["timestamp-ms"] < oldest]
    if known and len(set(gone)) >= len(known):
        raise UnsafeRequest("no snapshot would be left")
    return gone, [one for one in there if one not in gone]


def held_snapshots(document: dict[str, Any], known: dict[int, dict[str, Any]], least: int) -> set[int]:
    """What branches, tags and the newest checkpoint of each Flink job point to; of a branch, so many at least."""
    held = {document.get("current-snapshot-id") or -1}
    for ref in (document.get("refs") or {}).values():
        held.update(islice(ancestors(known, ref["snapshot-id"]), least if ref["type"] == "branch" else 1))
    newest: dict[tuple[str, str], int] = {}
    for one in sorted(known.values(), key=lambda one: one["timestamp-ms"]):
        summary = one.get("summary") or {}
        if flink := summary.get(FLINK_JOB):
            newest[flink, summary.get(FLINK_OPERATOR, "")] = one["snapshot-id"]
    return held | set(newest.values())


def ancestors(known: dict[int, dict[str, Any]], head: int | None) -> Iterator[int]:
    """A snapshot and its ancestors, as far as they are known."""
    while head in known:
        yield head
        head = known[head].get("parent-snapshot-id")


def without(job: Job, base: Any, gone: list[int]) -> Any:
    """The builder of the metadata that is to come."""
    java = jvm(job.session)
    numbers = java.java.util.HashSet()
    for one in gone:
        numbers.add(java.java.lang.Long.valueOf(str(one)))
    return java.org.apache.iceberg.TableMetadata.buildFrom(base).removeSnapshots(numbers)


def as_written(base: Any, after: Any) -> Any:
    """The metadata to come, as if it had been written: Spark wants to know a file for it."""
    return after.discardChanges().withMetadataLocation(base.metadataFileLocation()).build()


def commit(table: Any, base: Any, after: Any) -> bool:
    """False if someone else was faster."""
    try:
        table.operations().commit(base, after)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "CommitFailedException":
            return False
        raise
    return True


def delete_unreferenced(job: Job, table: Any, base: Any, nested: tuple[str, ...]) -> dict[str, Any]:
    """Delete what the old metadata refers to and the new does not. Whatever stops us here leaves orphans, no more."""
    job.phase("finding files that nothing refers to any more")
    files, ours = unreferenced_files(job, table, base, table.operations().refresh(), nested)
    job.phase("checking that the files are the table's")
    tables.load(job)
    left = outside.left_outside(files.where(~ours))
    return {"deleted_files": outside.delete(job, table, files.where(ours), "expired"), **left}


def unreferenced_files(job: Job, table: Any, before: Any, after: Any, nested: tuple[str, ...]) -> tuple[DataFrame, Any]:
    """The files that only the metadata before refers to, and the condition that they are the table's own.

    By path alone, so that no spelling of a live file makes it look unneeded; twice if two buckets have the path.
    """
    old, new = (reachable.content(job, table_with(job, table, metadata)) for metadata in (before, after))
    live = new.select("key").distinct().localCheckpoint(eager=True)
    outside.refuse_other_spellings(job, live)
    one_each = old.withColumn("spelled", outside.spelled("path")).dropDuplicates(["spelled"])
    files = one_each.join(live, "key", "left_anti").select("path").localCheckpoint(eager=True)
    return files, outside.is_inside(job, table, nested)


def table_with(job: Job, table: Any, metadata: Any) -> Any:
    """The table as one state of its metadata shows it."""
    iceberg = jvm(job.session).org.apache.iceberg
    return iceberg.BaseTable(iceberg.StaticTableOperations(metadata, table.io()), table.name())
