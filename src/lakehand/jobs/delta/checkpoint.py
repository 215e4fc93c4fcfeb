# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint of the newest version, and the hint that leads readers to it.

Delta's own call for that also deletes from the log what is past its retention. Here only its two first steps are
taken: what is deleted is another action, with limits of its own.
"""

import json
from typing import Any

from lakehand.jobs.delta import log_files, tables
from lakehand.jobs.job import Job
from lakehand.jobs.safety import operation_tag
from lakehand.jobs.spark import activate, jvm, list_folder, read_file

HINT = "_last_checkpoint"
LARGEST_HINT = 16 * 1024**2  # bytes; it may hold a schema


def run(job: Job) -> dict[str, Any]:
    operation_tag(job.parameters)
    job.phase("checking the boundary")
    log, snapshot = check_table(job)
    before = int((job.parameters.get("before") or {}).get("version", -1))
    if (known := hinted_version(job)) >= before:
        return {"already_done": True, "version": known}
    job.check()
    version = int(snapshot.version())
    job.phase(f"writing a checkpoint of version {version}")
    check_table(job)
    info = checkpoints(job).writeCheckpoint(job.session._jsparkSession, log, snapshot)
    job.phase(f"naming version {version} as the newest checkpoint")
    job.check()
    check_table(job)
    if hinted_version(job) < version:  # a writer may have made a newer one meanwhile
        log.writeLastCheckpointFile(log, info, has_checksum(job))
    job.phase(f"committed version {version}")
    return {"already_done": False, "version": version, "checkpoint_bytes": int(info.sizeInBytes().get())}


def check_table(job: Job) -> tuple[Any, Any]:
    """Delta's log and the newest version of the table that was admitted, with no link below it."""
    activate(job.session)
    # Delta would only log that a checkpoint or its hint could not be written.
    job.session.conf.set(f"{tables.DELTA}checkpoint.exceptionThrowing.enabled", "true")
    job.boundary.check()
    snapshot = tables.newest_version(job)
    return snapshot.deltaLog(), snapshot


def hinted_version(job: Job) -> int:
    """The checkpoint that the hint leads to; -1 if there is no hint, or no such checkpoint.

    Delta's own reading of it is more lenient: where a hint makes no sense, it looks for checkpoints itself.
    """
    files = list_folder(job.session, log_files.log_folder(job))
    hint = next((one for one in files if one.name == HINT and 0 < one.size < LARGEST_HINT), None)
    try:
        found = json.loads(read_file(job.session, hint.path)) if hint else None
    except ValueError:
        return -1
    version = found.get("version") if isinstance(found, dict) else None
    if not isinstance(version, int) or version not in log_files.checkpoints_of(log_files.list_log(job)):
        return -1
    return version


def checkpoints(job: Job) -> Any:
    """Scala's object: Java sees only the trait of the same name."""
    return getattr(getattr(jvm(job.session).org.apache.spark.sql.delta, "Checkpoints$"), "MODULE$")


def has_checksum(job: Job) -> bool:
    return bool(
        jvm(job.session).org.apache.spark.sql.delta.LastCheckpointInfo.checksumEnabled(job.session._jsparkSession)
    )
