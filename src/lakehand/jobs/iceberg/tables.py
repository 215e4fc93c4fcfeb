# SPDX-License-Identifier: Apache-2.0
"""The table of a job, loaded fresh: by its path in Hadoop layout, or by its name in a catalog that the driver knows."""

import json
import re
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.iceberg import admitted
from lakehand.jobs.job import Job
from lakehand.jobs.safety import UnsafeRequest

TAG = "lakehand-operation"
_CATALOG = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def load(job: Job) -> Any:
    """The Java table at its newest state; refused when it is not the table, or not in the place, that was admitted.

    Loaded again as a check before a commit or a deletion: a refresh does not notice another table of the same version.
    Iceberg looks up catalogs, its own inner ones too, in the session that is active in the thread: that must be ours.
    """
    java(job.session).SparkSession.setActiveSession(job.session._jsparkSession)
    job.boundary.check()
    table = by_name(job) if job.parameters.get("catalog") else by_path(job.session, job.boundary.real)
    admitted.refuse_other(job, table)
    return table


def by_path(session: SparkSession, location: str) -> Any:
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    return java(session).org.apache.iceberg.hadoop.HadoopTables(hadoop).load(location)


def by_name(job: Job) -> Any:
    catalog, parts = job.parameters["catalog"], [*job.parameters["namespace"].split("."), job.parameters["table"]]
    if not _CATALOG.fullmatch(catalog):
        raise UnsafeRequest(f"{catalog!r} is no name of a catalog")
    name = ".".join([catalog, *(quoted(part) for part in parts if part)])
    table = java(job.session).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(job.session._jsparkSession, name)
    table.refresh()  # the driver's catalog may remember an older state
    return table


def quoted(name: str) -> str:
    if not name.isprintable():
        raise UnsafeRequest(f"{name!r} cannot be quoted: it has a control character")
    return "`" + name.replace("`", "``") + "`"


def java(session: SparkSession) -> Any:
    return session.sparkContext._jvm


def actions(session: SparkSession) -> Any:
    return java(session).org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)


def document(session: SparkSession, metadata: Any) -> dict[str, Any]:
    """The table's metadata as Python has it, by one call however long the history is."""
    found: dict[str, Any] = json.loads(java(session).org.apache.iceberg.TableMetadataParser.toJson(metadata))
    return found


def tagged(session: SparkSession, table: Any, tag: str) -> list[int]:
    """Snapshots that an earlier attempt of this operation has committed."""
    known = document(session, table.operations().current()).get("snapshots") or []
    return [one["snapshot-id"] for one in known if (one.get("summary") or {}).get(TAG) == tag]


def refuse_shared(table: Any) -> None:
    if str(dict(table.properties()).get("gc.enabled", "true")).lower() == "false":
        raise UnsafeRequest("the table's property gc.enabled is false: its files may belong to other tables, too")
