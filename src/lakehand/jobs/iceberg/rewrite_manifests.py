# SPDX-License-Identifier: Apache-2.0
"""Merges manifests, so that planning a query opens fewer files. No data file is touched."""

from typing import Any

from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job

COUNTS = {"rewritten": "rewrittenManifests", "added": "addedManifests"}


def run(job: Job) -> dict[str, Any]:
    return run_rewrite(job, "rewriteManifests", COUNTS)
