# SPDX-License-Identifier: Apache-2.0
"""Merges manifests, so that planning a query opens fewer files. No data file is touched."""

from typing import Any

from lakehand.jobs.iceberg import tables
from lakehand.jobs.iceberg.rewrites import run_rewrite
from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    return run_rewrite(job, lambda table: tables.actions(job.session).rewriteManifests(table), count)


def count(outcome: Any) -> dict[str, int]:
    return {
        "rewritten": sum(1 for _ in outcome.rewrittenManifests()),
        "added": sum(1 for _ in outcome.addedManifests()),
    }
