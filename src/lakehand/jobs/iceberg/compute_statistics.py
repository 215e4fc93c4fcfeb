# SPDX-License-Identifier: Apache-2.0
"""Counts the distinct values of columns, by sketches in a Puffin file. All rows of the table are read for it."""

from functools import partial
from typing import Any

from lakehand.jobs.iceberg import tables
from lakehand.jobs.iceberg.statistics import compute
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import java_array, jvm


def run(job: Job) -> dict[str, Any]:
    return compute(job, "statistics", partial(stage, job))


def stage(job: Job, table: Any, transaction: Any, target: int) -> None:
    """Iceberg's action commits what it computed: to a transaction that nobody commits, and from there to ours."""
    operations = table.newTransaction().table().operations()
    scanned = jvm(job.session).org.apache.iceberg.BaseTable(operations, table.name())
    action = tables.actions(job.session).computeTableStats(scanned).snapshot(target)
    file = action.columns(columns_of(job)).execute().statisticsFile()
    transaction.updateStatistics().setStatistics(file).commit()


def columns_of(job: Job) -> Any:
    columns = job.parameters.get("columns")
    if not isinstance(columns, list) or not columns or not all(isinstance(one, str) for one in columns):
        raise UnsafeRequest(f"{columns!r} is not a list of columns")
    return java_array(job.session, jvm(job.session).java.lang.String, columns)
