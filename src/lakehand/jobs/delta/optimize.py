# SPDX-License-Identifier: Apache-2.0
"""Merges small files into larger ones."""

from typing import Any

from lakehand.jobs.delta import rewrites, tables
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    return rewrites.rewrite(job, f"OPTIMIZE {tables.table_name(job)}{tables.where(job.parameters.get('partitions'))}")
