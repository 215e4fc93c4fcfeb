# SPDX-License-Identifier: Apache-2.0
"""Counts rows and files of each partition, from manifests alone."""

from functools import partial
from typing import Any

from lakehand.jobs.iceberg.statistics import compute, file_of
from lakehand.jobs.job import Job
from lakehand.jobs.spark import jvm

KIND = "partition-statistics"


def run(job: Job) -> dict[str, Any]:
    return compute(job, KIND, partial(stage, job))


def stage(job: Job, table: Any, transaction: Any, target: int) -> None:
    """From the newest statistics on. Where their file was lost, Iceberg would count nothing: that entry goes first."""
    source = table
    if (known := file_of(job, table, KIND, target)) and not table.io().newInputFile(known).exists():
        transaction.updatePartitionStatistics().removePartitionStatistics(target).commit()
        source = transaction.table()
    file = jvm(job.session).org.apache.iceberg.PartitionStatsHandler.computeAndWriteStatsFile(source, target)
    if file is not None:
        transaction.updatePartitionStatistics().setPartitionStatistics(file).commit()
