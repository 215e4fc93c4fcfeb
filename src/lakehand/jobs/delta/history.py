# SPDX-License-Identifier: Apache-2.0
"""The table's own history: whether an earlier attempt of this operation has committed already."""

from typing import Any

from lakehand.jobs.delta import statements
from lakehand.jobs.job import Job


def own_commits(job: Job) -> list[dict[str, Any]]:
    """Commits with our tag since the operation was first admitted, oldest first."""
    mark = statements.tag_of(job.parameters["operation_tag"])
    table = statements.table_at(job.boundary.real)
    before = int((job.parameters.get("before") or {}).get("version", -1))
    newest = int(entries(job, table, 1)[0]["version"])
    if newest <= before:
        return []
    found = entries(job, table, newest - before)
    return [one for one in reversed(found) if one["userMetadata"] == mark and one["version"] > before]


def entries(job: Job, table: str, count: int) -> list[dict[str, Any]]:
    rows = job.session.sql(f"DESCRIBE HISTORY {table} LIMIT {count}")
    return [
        row.asDict() for row in rows.select("version", "operation", "operationParameters", "userMetadata").collect()
    ]
