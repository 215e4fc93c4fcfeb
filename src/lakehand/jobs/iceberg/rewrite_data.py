# SPDX-License-Identifier: Apache-2.0
"""Rewrites data files: small ones into larger ones, those with many deletes without them; sorted if so configured."""

from functools import partial
from typing import Any

from lakehand.jobs.iceberg import filters
from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job
from lakehand.jobs.spark import java_array, jvm

COUNTS = {
    "rewritten": "rewrittenDataFilesCount",
    "added": "addedDataFilesCount",
    "rewritten_bytes": "rewrittenBytesCount",
}


def run(job: Job) -> dict[str, Any]:
    return run_rewrite(job, "rewriteDataFiles", COUNTS, partial(prepare, job))


def prepare(job: Job, table: Any, action: Any) -> Any:
    only = job.parameters.get("only")
    return with_order(job, table, action.filter(filters.of_partitions(job.session, only)) if only else action)


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
