# SPDX-License-Identifier: Apache-2.0
"""Rewrites data files: small ones into larger ones, those with many deletes without them; sorted if so configured."""

from typing import Any

from lakehand.jobs.iceberg import tables
from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job
from lakehand.jobs.spark import java_array, jvm


def run(job: Job) -> dict[str, Any]:
    def begin(table: Any) -> Any:
        action = tables.actions(job.session).rewriteDataFiles(table)
        return with_order(job, table, action, job.parameters.get("order") or {})

    return run_rewrite(job, begin, count)


def count(outcome: Any) -> dict[str, int]:
    return {
        "rewritten": outcome.rewrittenDataFilesCount(),
        "added": outcome.addedDataFilesCount(),
        "rewritten_bytes": outcome.rewrittenBytesCount(),
    }


def with_order(job: Job, table: Any, action: Any, order: dict[str, Any]) -> Any:
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
