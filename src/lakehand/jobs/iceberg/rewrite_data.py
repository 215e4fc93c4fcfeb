# SPDX-License-Identifier: Apache-2.0
"""Rewrites data files: small ones into larger ones, those with many deletes without them; sorted if so configured."""

from functools import partial, reduce
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import java_array, jvm

COUNTS = {
    "rewritten": "rewrittenDataFilesCount",
    "added": "addedDataFilesCount",
    "rewritten_bytes": "rewrittenBytesCount",
}
PLAIN = frozenset({"year", "month", "day", "hour"})
WITH_WIDTH = frozenset({"bucket", "truncate"})


def run(job: Job) -> dict[str, Any]:
    return run_rewrite(job, "rewriteDataFiles", COUNTS, partial(prepare, job))


def prepare(job: Job, table: Any, action: Any) -> Any:
    only = job.parameters.get("only")
    return with_order(job, table, action.filter(of_partitions(job.session, only)) if only else action)


def with_order(job: Job, table: Any, action: Any) -> Any:
    order = job.parameters.get("order") or {}
    if "z_order" in order:
        return action.zOrder(java_array(job.session, jvm(job.session).java.lang.String, order["z_order"]))
    if "sort" in order:
        return action.sort(sort_order(job, table, order["sort"])) if order["sort"] else action.sort()
    return action


def sort_order(job: Job, table: Any, columns: list[dict[str, Any]]) -> Any:
    iceberg = jvm(job.session).org.apache.iceberg
    builder = iceberg.SortOrder.builderFor(table.schema())
    for column in columns:
        nulls = iceberg.NullOrder.NULLS_FIRST if column.get("nulls_first") else iceberg.NullOrder.NULLS_LAST
        add = builder.desc if column.get("descending") else builder.asc
        builder = add(column["column"], nulls)
    return builder.build()


def of_partitions(session: SparkSession, partitions: list[list[list[Any]]]) -> Any:
    """As Iceberg's own expressions: no text of a table becomes SQL. Each partition is (column, transform, value)s."""
    expressions = jvm(session).org.apache.iceberg.expressions.Expressions
    each = [all_of(expressions, [equals(expressions, *part) for part in partition]) for partition in partitions]
    return reduce(getattr(expressions, "or"), each)


def all_of(expressions: Any, parts: list[Any]) -> Any:
    return reduce(getattr(expressions, "and"), parts)


def equals(expressions: Any, column: str, transform: str, value: Any) -> Any:
    found = term(expressions, column, transform)
    return expressions.isNull(found) if value is None else expressions.equal(found, value)


def term(expressions: Any, column: str, transform: str) -> Any:
    kind, _, width = transform.rstrip("]").partition("[")
    if kind == "identity":
        return expressions.ref(column)
    if kind in WITH_WIDTH:
        return getattr(expressions, kind)(column, int(width))
    if kind not in PLAIN:
        raise UnsafeRequest(f"no partition is chosen by the transform {transform!r}")
    return getattr(expressions, kind)(column)
