# SPDX-License-Identifier: Apache-2.0
"""Rewrites the files that have deletion vectors, without the rows that these mark."""

from typing import Any

from lakehand.jobs.delta import rewrites, statements
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    return rewrites.rewrite(job, f"REORG TABLE {statements.table_at(job.boundary.real)} APPLY (PURGE)")
