# SPDX-License-Identifier: Apache-2.0
"""Other tables in a table's folder or below it: they need files that ours does not, so none is deleted there."""

import re
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of

from lakehand.jobs.boundary import tables_marked_by
from lakehand.jobs.iceberg.admitted import real_place
from lakehand.jobs.job import Job
from lakehand.jobs.paths import path_part

LISTS_PREFIXES = "org.apache.iceberg.io.SupportsPrefixOperations"
# A timeline without its properties file, from a writer that died early, has data files beside it all the same.
HUDI = re.compile(r"((?:.*/)?\.hoodie/)[^/]+")


def refuse_tables_below(job: Job, table: Any) -> None:
    """For what lists folders: it would take the files of a nested table for orphans of ours."""
    own = own_metadata(job, table)
    job.boundary.refuse_tables_below("iceberg", marked(files(job, table)), also_own=lambda folder: folder == own)


def nested_tables(job: Job, table: Any) -> tuple[str, ...]:
    """Folders of tables below this one, for what deletes by name; another format in our own folder is refused.

    Some tools give one folder two formats: the other one's history still needs what ours has replaced.
    """
    own = own_metadata(job, table)
    found: set[str] = set()
    for file in marked(files(job, table)):
        for folder, _ in tables_marked_by(file):
            if not folder:
                job.boundary.refuse_tables_below("iceberg", [file])
            elif folder != own:
                found.add(folder)
    return tuple(f"{job.boundary.real}/{folder}" for folder in sorted(found))


def own_metadata(job: Job, table: Any) -> str:
    """The folder, relative to the table, that looks like a nested table because our own metadata is kept there."""
    kept = real_place(str(table.operations().current().metadataFileLocation()).rpartition("/")[0])
    above, _, name = kept.rpartition("/")
    root = real_place(job.boundary.real)
    return above.removeprefix(f"{root}/") if name == "metadata" and above.startswith(f"{root}/") else ""


def marked(found: Iterator[str]) -> Iterator[str]:
    for file in found:
        yield file
        if match := HUDI.fullmatch(file):
            yield f"{match[1]}hoodie.properties"


def files(job: Job, table: Any) -> Iterator[str]:
    """All files below the table, hidden ones too, through its own file access: on S3 that may be the only one."""
    gateway: Any = job.session.sparkContext._gateway
    if job.boundary.is_local or not is_instance_of(gateway, table.io(), LISTS_PREFIXES):
        return job.boundary.files(job.session)
    return files_of(table.io(), job.boundary.real.rstrip("/") + "/")


def files_of(io: Any, root: str) -> Iterator[str]:
    start = len(path_part(root).rstrip("/")) + 1
    for found in io.listPrefix(root).iterator():
        yield path_part(str(found.location()))[start:]
