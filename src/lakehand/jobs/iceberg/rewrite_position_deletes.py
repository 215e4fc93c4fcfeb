# SPDX-License-Identifier: Apache-2.0
"""Merges position delete files, and drops entries for data files that are gone."""

from typing import Any

from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job

COUNTS = {
    "rewritten": "rewrittenDeleteFilesCount",
    "added": "addedDeleteFilesCount",
    "rewritten_bytes": "rewrittenBytesCount",
}


def run(job: Job) -> dict[str, Any]:
    return run_rewrite(job, "rewritePositionDeletes", COUNTS)
