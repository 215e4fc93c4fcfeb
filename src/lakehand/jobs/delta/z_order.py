# SPDX-License-Identifier: Apache-2.0
"""Rewrites a table, or some of its partitions, so that rows with near values lie in the same files."""

from typing import Any

from lakehand.jobs.delta import rewrites, tables
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    columns = job.parameters["columns"]
    if not columns:
        raise ValueError("there are no columns to order by")
    order = ", ".join(tables.column(one) for one in columns)
    where = tables.where(job.parameters.get("partitions"))
    return rewrites.rewrite(job, f"OPTIMIZE {tables.table_name(job)}{where} ZORDER BY ({order})")
