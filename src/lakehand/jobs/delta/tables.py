# SPDX-License-Identifier: Apache-2.0
"""A Delta table in a job: its newest version, its own commits, and the parts of statements, all quoted or refused."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, functions

from lakehand.jobs.classes import require_class
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest, operation_tag
from lakehand.jobs.spark import identifier, jvm, literal

DELTA = "spark.databricks.delta."
TYPES = frozenset({"string", "date", "boolean", "byte", "short", "integer", "long"})
SQL_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
# Paths in the log are URL-encoded and relative to the table. Only paths that match can lead anywhere else.
ODD_PATH = r"^/|^%2[fF]|^[A-Za-z][A-Za-z0-9+.-]*:|\.\.|%2[eE]"
NAME_LENGTH = 20  # of a deletion vector's name; what is before it is the folder
ODD_VECTOR = (
    "deletionVector.storageType = 'p' OR (deletionVector.storageType = 'u' AND"
    f" left(deletionVector.pathOrInlineDv, length(deletionVector.pathOrInlineDv) - {NAME_LENGTH}) RLIKE '[^A-Za-z0-9]')"
)


def table_name(job: Job) -> str:
    """The table by its location, as Spark SQL names it."""
    return f"delta.{identifier(job.boundary.real)}"


def column(text: Any) -> str:
    """A column, or with dots a field inside one."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a column")
    return ".".join(identifier(part) for part in text.split("."))


def where(partitions: Sequence[Any] | None) -> str:
    """A condition that holds in the given partitions only; empty for the whole table."""
    if partitions is None:
        return ""
    if not partitions:
        raise ValueError("no partition was named, which cannot mean all of them")
    return " WHERE " + " OR ".join("(" + " AND ".join(equals(*value) for value in one) + ")" for one in partitions)


def equals(key: Any, kind: Any, value: Any) -> str:
    if kind not in TYPES:
        raise ValueError(f"{kind!r} is not a type that partitions are named by")
    if value is None:
        return f"{identifier(key)} IS NULL"
    return f"{identifier(key)} = CAST({literal(value)} AS {SQL_NAMES.get(kind, kind.upper())})"


def configure(job: Job, **settings: Any) -> None:
    """Delta's settings of the session, with ``__`` for dots: the operation tag goes into every commit."""
    job.session.conf.set(f"{DELTA}commitInfo.userMetadata", user_metadata(job))
    for key, value in settings.items():
        job.session.conf.set(DELTA + key.replace("__", "."), str(value))


def user_metadata(job: Job) -> str:
    return f"lakehand-operation={operation_tag(job.parameters)}"


def own_commits(job: Job) -> list[dict[str, Any]]:
    """Commits with our tag since the operation was first admitted, oldest first: made by an earlier attempt."""
    before = int((job.parameters.get("before") or {}).get("version", -1))
    newest = int(history(job, 1)[0]["version"])
    if newest <= before:
        return []
    tag, found = user_metadata(job), history(job, newest - before)
    return [one for one in reversed(found) if one["userMetadata"] == tag and one["version"] > before]


def history(job: Job, count: int) -> list[dict[str, Any]]:
    rows = job.session.sql(f"DESCRIBE HISTORY {table_name(job)} LIMIT {count}")
    chosen = rows.select("version", "operation", "operationParameters", "userMetadata")
    return [row.asDict() for row in chosen.collect()]


def newest_version(job: Job) -> Any:
    """Delta's snapshot of it; refused when it is of another table: Delta gives every table an id."""
    refuse_other_log_store(job)
    logs = jvm(job.session).org.apache.spark.sql.delta.DeltaLog
    snapshot = logs.forTableWithSnapshot(job.session._jsparkSession, job.boundary.real)._2()
    job.boundary.refuse_other_table(snapshot.metadata().id(), job.parameters.get("identity"))
    return snapshot


def refuse_other_log_store(job: Job) -> None:
    """The work was admitted because of a log store: Spark must have it for the scheme that the table is opened by.

    Delta reads the driver's settings, not those of a session.
    """
    admitted = job.parameters.get("log_store")
    key = f"spark.delta.logStore.{job.boundary.real.partition('://')[0]}.impl"
    found = job.session.sparkContext.getConf().get(key, "") or ""
    if admitted and found != admitted:
        raise UnsafeRequest(
            f"{key} is {found or 'not set'!r} in Spark, and the work was admitted for {admitted}: without it a commit "
            "could be lost. Set it under [spark], and restart the driver"
        )
    if found:
        require_class(job, found, key)


def partition_columns(snapshot: Any) -> list[str]:
    names = snapshot.metadata().partitionColumns()
    return [str(names.apply(number)) for number in range(names.size())]


def refuse_foreign_files(job: Job, snapshot: Any) -> None:
    """A rewrite would copy a live file outside of the table into it: nobody may make us read that."""
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
