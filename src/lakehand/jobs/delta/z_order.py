# SPDX-License-Identifier: Apache-2.0
"""Rewrites a table, or some of its partitions, so that rows with near values lie in the same files."""

from typing import Any

from lakehand.jobs.delta import rewrites, statements
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    columns = job.parameters["columns"]
    if not columns:
        raise ValueError("there are no columns to order by")
    where = statements.where(job.parameters.get("partitions"))
    order = ", ".join(statements.column(one) for one in columns)
    table = statements.table_at(job.boundary.real)
    return rewrites.rewrite(job, f"OPTIMIZE {table}{where} ZORDER BY ({order})")
