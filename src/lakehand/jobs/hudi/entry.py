# SPDX-License-Identifier: Apache-2.0
"""What every Hudi job checks before it touches a table, and again before it executes a plan."""

from lakehand.jobs.hudi import named_files, timelines
from lakehand.jobs.job import Job

METADATA_TABLE = ".hoodie/metadata"
IDENTITY = ("hoodie.database.name", "hoodie.table.name", "hoodie.table.type")


def enter(job: Job) -> str:
    """The location to work on. Hudi plans by listing folders, so that no other table may lie below this one."""
    job.boundary.check_path()
    job.boundary.refuse_tables_below("hudi", job.boundary.files(job.session), also_own=is_own)
    refuse_other_table(job)
    named_files.refuse_outside(job)
    return job.boundary.real


def check_again(job: Job) -> None:
    """Before a plan is executed: it may have been made since, by us or by somebody else."""
    job.boundary.check()
    refuse_other_table(job)
    named_files.refuse_outside(job)


def is_own(folder: str) -> bool:
    return folder == METADATA_TABLE or folder.startswith(f"{METADATA_TABLE}/")


def refuse_other_table(job: Job) -> None:
    """Hudi gives its tables no identifier: names and type must do. On local disks the folder's inode counts, too."""
    config = timelines.meta_client(job.session, job.boundary.real).getTableConfig().getProps()
    found = " ".join(str(config.get(key) or "-") for key in IDENTITY)
    job.boundary.refuse_other_table(found, job.parameters.get("identity"))
