# SPDX-License-Identifier: Apache-2.0
"""Rewrites the files that have deletion vectors, without the deleted rows."""

from typing import Any

from lakehand.jobs.delta import rewrites, tables
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    return rewrites.rewrite(job, f"REORG TABLE {tables.table_name(job)} APPLY (PURGE)")
