# SPDX-License-Identifier: Apache-2.0
"""Rewrites data files: small ones into larger ones, those with many deletes without them; sorted if so wished."""

from typing import Any

from lakehand.jobs.iceberg import tables
from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    def begin(table: Any) -> Any:
        action = tables.actions(job.session).rewriteDataFiles(table)
        return laid_out(job, table, action, job.parameters.get("order") or {})

    return run_rewrite(job, begin, counted)


def counted(outcome: Any) -> dict[str, int]:
    return {
        "rewritten": outcome.rewrittenDataFilesCount(),
        "added": outcome.addedDataFilesCount(),
        "rewritten_bytes": outcome.rewrittenBytesCount(),
    }


def laid_out(job: Job, table: Any, action: Any, order: dict[str, Any]) -> Any:
    if "z_order" in order:
        return action.zOrder(texts(job, order["z_order"]))
    if "sort" in order:
        return action.sort(sort_order(job, table, order["sort"])) if order["sort"] else action.sort()
    return action


def sort_order(job: Job, table: Any, columns: list[dict[str, Any]]) -> Any:
    iceberg = tables.java(job.session).org.apache.iceberg
    builder = iceberg.SortOrder.builderFor(table.schema())
    for column in columns:
        nulls = iceberg.NullOrder.NULLS_FIRST if column.get("nulls_first") else iceberg.NullOrder.NULLS_LAST
        add = builder.desc if column.get("descending") else builder.asc
        builder = add(column["column"], nulls)
    return builder.build()


def texts(job: Job, values: list[str]) -> Any:
    """A Java array of texts."""
    gateway: Any = job.session.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
