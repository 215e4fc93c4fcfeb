# SPDX-License-Identifier: Apache-2.0
"""Merges small files into larger ones."""

from typing import Any

from lakehand.jobs.delta import rewrites, statements
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    where = statements.where(job.parameters.get("partitions"))
    return rewrites.rewrite(job, f"OPTIMIZE {statements.table_at(job.boundary.real)}{where}")
