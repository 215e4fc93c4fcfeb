# SPDX-License-Identifier: Apache-2.0
"""The last check before a commit: the same table, the same place, and all that Iceberg writes or deletes is inside."""

from typing import Any

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.iceberg import tables
from lakehand.jobs.job import Job
from lakehand.jobs.paths import has_scheme

DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
PROBE = "lakehand-probe"


def check_commit(job: Job, table: Any) -> None:
    """Loads the table once more: Iceberg itself does not notice another table with the same version number."""
    job.check()
    tables.load(job)
    refuse_writes_outside(job, table)
    refuse_deletes_outside(job, table)


def refuse_writes_outside(job: Job, table: Any) -> None:
    operations = table.operations()
    written = {
        "the table's metadata is at": str(operations.current().metadataFileLocation()),
        "new metadata would be written to": str(operations.metadataFileLocation(PROBE)),
        "new data would be written to": str(table.locationProvider().newDataLocation(PROBE)),
    }
    for what, path in written.items():
        if not is_held(job, path):
            raise OutsideTable(
                f"{what} {path.removesuffix(PROBE)}, outside of {job.boundary.real}. If that folder belongs to this"
                " table alone, an operator can name it in its property extra-locations"
            )


def refuse_deletes_outside(job: Job, table: Any) -> None:
    """A commit to a table with this property deletes the oldest entries of its metadata log, wherever they are."""
    if str(dict(table.properties()).get(DELETE_AFTER_COMMIT, "false")).lower() != "true":
        return
    log = [str(entry.file()) for entry in table.operations().current().previousFiles()]
    foreign = [file for file in log if not is_held(job, file)]
    if foreign:
        raise OutsideTable(
            f"the table's property {DELETE_AFTER_COMMIT} would delete files outside of {job.boundary.real} that its"
            f" metadata log names: {', '.join(foreign[:3])}"
        )


def is_held(job: Job, path: str) -> bool:
    """As the boundary has it; but Iceberg takes a relative path as relative to the driver's working folder."""
    return (path.startswith("/") or has_scheme(path)) and job.boundary.holds(path)
