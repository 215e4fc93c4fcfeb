# SPDX-License-Identifier: Apache-2.0
"""What every Hudi job checks before it touches a table, and again before it executes a plan."""

from typing import Any

from lakehand.jobs.hudi import named_files, timelines
from lakehand.jobs.job import Job

METADATA_TABLE = ".hoodie/metadata"
IDENTITY = ("hoodie.database.name", "hoodie.table.name", "hoodie.table.type")


def enter(job: Job) -> str:
    """The location to work on. Hudi plans by listing folders, so that no other table may lie below this one."""
    job.boundary.check_path()
    job.boundary.refuse_tables_below("hudi", job.boundary.files(job.session), also_own=is_own)
    check_table(job)
    return job.boundary.real


def check_again(job: Job) -> None:
    """Before a plan is executed: it may have been made since, by us or by somebody else."""
    job.boundary.check()
    check_table(job)


def is_own(folder: str) -> bool:
    return folder == METADATA_TABLE or folder.startswith(f"{METADATA_TABLE}/")


def check_table(job: Job) -> None:
    """Whether it is the table that was admitted, and names no file outside of it."""
    client = timelines.meta_client(job.session, job.boundary.real)
    refuse_other_table(job, client.getTableConfig().getProps())
    named_files.refuse_outside(job, client)


def refuse_other_table(job: Job, properties: Any) -> None:
    """Hudi gives its tables no identifier: names and type must do. On local disks the folder's inode counts, too."""
    found = " ".join(str(properties.getProperty(key) or "-") for key in IDENTITY)
    job.boundary.refuse_other_table(found, job.parameters.get("identity"))
