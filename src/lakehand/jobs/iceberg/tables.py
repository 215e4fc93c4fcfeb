# SPDX-License-Identifier: Apache-2.0
"""The table of a job: loaded fresh, by its path in Hadoop layout or by its name in a catalog, and checked each time."""

import json
import os
import re
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical, has_scheme
from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import activate, hadoop_configuration, identifier, jvm

TAG = "lakehand-operation"
LOCATION_PROVIDER = "write.location-provider.impl"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
PROBE = "lakehand-probe"
_CATALOG = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def load(job: Job) -> Any:
    """The Java table at its newest state; refused when it is not the table, or not at the location, that was admitted.

    Loaded again as a check before a commit or a deletion: a refresh does not notice another table of the same version.
    """
    activate(job.session)
    job.boundary.check()
    table = by_name(job) if job.parameters.get("catalog") else by_path(job.session, job.boundary.real)
    refuse_other(job, table)
    return table


def by_path(session: SparkSession, location: str) -> Any:
    return jvm(session).org.apache.iceberg.hadoop.HadoopTables(hadoop_configuration(session)).load(location)


def by_name(job: Job) -> Any:
    catalog, parts = job.parameters["catalog"], [*job.parameters["namespace"].split("."), job.parameters["table"]]
    if not _CATALOG.fullmatch(catalog):
        raise UnsafeRequest(f"{catalog!r} is not the name of a catalog")
    name = ".".join([catalog, *(identifier(part) for part in parts if part)])
    table = jvm(job.session).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(job.session._jsparkSession, name)
    table.refresh()  # the driver's catalog may have an older state cached
    return table


def refuse_other(job: Job, table: Any) -> None:
    """Raise unless this is the table that was admitted, at the location that was admitted."""
    boundary, asked = job.boundary, job.parameters["location"]
    if canonical(asked) not in (canonical(boundary.location), canonical(boundary.real)):
        raise OutsideTable(f"the table was admitted at {boundary.location}, and the work was for {asked}")
    if real_location(str(table.location())) != real_location(boundary.real):
        raise OutsideTable(f"the table is at {table.location()} now, and the work was for {asked}")
    boundary.refuse_other_table(table.operations().current().uuid(), job.parameters.get("identity"))
    # Every scan of the table would load the class that this property names, with the driver's rights.
    if named := dict(table.properties()).get(LOCATION_PROVIDER):
        raise OutsideTable(
            f"the table's property {LOCATION_PROVIDER} names a class, {named}: such a table is not worked on"
        )


def real_location(location: str) -> str:
    """One spelling, links followed; scheme spellings are one, buckets are not."""
    whole = canonical(location)
    return os.path.realpath(whole) if whole.startswith("/") else whole


def metadata_folder(table: Any) -> str:
    return str(table.operations().current().metadataFileLocation()).rpartition("/")[0]


def check_commit(job: Job, table: Any) -> None:
    """The last check before a commit: the same table, and all that Iceberg would write or delete is inside.

    Loads the table once more: Iceberg itself does not notice another table with the same version number.
    """
    job.check()
    load(job)
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
    if foreign := [file for file in log if not is_held(job, file)]:
        raise OutsideTable(
            f"the table's property {DELETE_AFTER_COMMIT} would delete files outside of {job.boundary.real} that its"
            f" metadata log names: {', '.join(foreign[:3])}"
        )


def is_held(job: Job, path: str) -> bool:
    """As the boundary has it; but Iceberg takes a relative path as relative to the driver's working folder."""
    return (path.startswith("/") or has_scheme(path)) and job.boundary.holds(path)


def refuse_shared(table: Any) -> None:
    if str(dict(table.properties()).get("gc.enabled", "true")).lower() == "false":
        raise UnsafeRequest("the table's property gc.enabled is false: its files may belong to other tables, too")


def actions(session: SparkSession) -> Any:
    return jvm(session).org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)


def document(session: SparkSession, metadata: Any) -> dict[str, Any]:
    """The table's metadata as Python has it, by one call however long the history is."""
    found: dict[str, Any] = json.loads(jvm(session).org.apache.iceberg.TableMetadataParser.toJson(metadata))
    return found


def tagged(session: SparkSession, table: Any, tag: str) -> list[int]:
    """Snapshots that an earlier attempt of this operation has committed."""
    known = document(session, table.operations().current()).get("snapshots") or []
    return [one["snapshot-id"] for one in known if (one.get("summary") or {}).get(TAG) == tag]
