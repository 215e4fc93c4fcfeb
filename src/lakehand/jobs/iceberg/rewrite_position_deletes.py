# SPDX-License-Identifier: Apache-2.0
"""Merges position delete files, and drops entries for data files that are gone."""

from typing import Any

from lakehand.jobs.iceberg import tables
from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    return run_rewrite(job, lambda table: tables.actions(job.session).rewritePositionDeletes(table), count)


def count(outcome: Any) -> dict[str, int]:
    return {
        "rewritten": outcome.rewrittenDeleteFilesCount(),
        "added": outcome.addedDeleteFilesCount(),
        "rewritten_bytes": outcome.rewrittenBytesCount(),
    }
