# SPDX-License-Identifier: Apache-2.0
"""The newest version of the table as Delta reads it: which table it is, and whether all its files are its own."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, functions

from lakehand.jobs.job import Job

# Paths in the log are URL-encoded and relative to the table. Only paths that match can lead anywhere else.
ODD_PATH = r"^/|^%2[fF]|^[A-Za-z][A-Za-z0-9+.-]*:|\.\.|%2[eE]"
NAME_LENGTH = 20  # of a deletion vector's name; what is before it is the folder
ODD_VECTOR = (
    "deletionVector.storageType = 'p' OR (deletionVector.storageType = 'u' AND"
    f" left(deletionVector.pathOrInlineDv, length(deletionVector.pathOrInlineDv) - {NAME_LENGTH}) RLIKE '[^A-Za-z0-9]')"
)


def newest(job: Job) -> Any:
    jvm: Any = job.session.sparkContext._jvm
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    return logs.forTableWithSnapshot(job.session._jsparkSession, job.boundary.real)._2()


def refuse_other_table(job: Job, snapshot: Any) -> None:
    """Delta gives every table an id when it is made."""
    job.boundary.refuse_other_table(snapshot.metadata().id(), job.parameters.get("identity"))


def partition_columns(snapshot: Any) -> list[str]:
    names = snapshot.metadata().partitionColumns()
    return [str(names.apply(number)) for number in range(names.size())]


def refuse_foreign_files(job: Job, snapshot: Any) -> None:
    """A rewrite would copy what a live file outside of the table holds into it: nobody may make us read that."""
    job.boundary.refuse_outside(odd_paths(job, snapshot), doing="rewrite")


def odd_paths(job: Job, snapshot: Any) -> Iterator[str]:
    """The live files and deletion vectors that may lie elsewhere. Delta caches the state that this filters."""
    files = DataFrame(snapshot.allFiles().toDF(), job.session)
    odd = files.where(functions.col("path").rlike(ODD_PATH) | functions.expr(ODD_VECTOR))
    for row in odd.select("path", "deletionVector").collect():
        yield unquote(row["path"])
        if row["deletionVector"] is not None:
            yield from vector_paths(row["deletionVector"])


def vector_paths(vector: Any) -> Iterator[str]:
    if vector["storageType"] == "p":
        yield unquote(vector["pathOrInlineDv"])
    elif vector["storageType"] == "u":
        yield f"{vector['pathOrInlineDv'][:-NAME_LENGTH]}/deletion_vector"
