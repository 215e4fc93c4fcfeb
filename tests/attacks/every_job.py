# SPDX-License-Identifier: Apache-2.0
"""What each job of each format is given, a small table for it, and a session that fails the test when it is used.

The tables are folders with a few files: enough for the checks that come before a format's own library opens a table.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.testing.harness import boundary_parameter
from tests import lance_tables
from tests.attacks.attacks import BY_LINK, MARKERS, AttackedTable
from tests.attacks.scene import OLD, make_old
from tests.formats.lance.runtime import harness

LONG_AGO = int((time.time() - OLD) * 1000)
SCHEMA = json.dumps({"id": 0, "fields": [], "options": {"write-only": "true"}})
PAIMON = f"schema-0:{hashlib.sha256(SCHEMA.encode()).hexdigest()}"

# As admissions make them, as far as a job reads them before its checks are over.
HUDI: dict[str, Any] = {
    "options": {},
    "identity": "- trips MERGE_ON_READ",
    "mode": "plan-and-execute",
    "may_plan": True,
}
ICEBERG: dict[str, Any] = {
    "operation_tag": "7-x", "identity": "8f2f", "before": 1, "columns": ["id"], "column": "at", "cutoff": LONG_AGO,
}  # fmt: skip
DELTA: dict[str, Any] = {
    "operation_tag": "7-x", "identity": "8f2f", "before": {"version": 1}, "small_bytes": 1000, "target_bytes": 2000,
    "retain_hours": 168, "mode": "lite", "columns": ["id"], "keep_from": 1, "older_than": LONG_AGO, "dry_run": False,
    "column": "at", "cutoff": LONG_AGO,
}  # fmt: skip
PAIMONS: dict[str, Any] = {
    "operation_tag": "7-x", "identity": PAIMON, "before": 1, "strategy": "full", "kind": "append", "until": 2,
    "retain_last": 1, "cutoff": LONG_AGO, "older_than": LONG_AGO, "tags": [{"name": "a", "sign": "b", "why": "time"}],
    "partitions": [{"key": "00", "name": "p=1", "files": 1, "rows": 1}],
}  # fmt: skip
JOBS: Mapping[str, Mapping[str, Any]] = {
    "hudi-compaction": HUDI,
    "hudi-clustering": HUDI,
    "hudi-clean": HUDI,
    "hudi-archive": HUDI,
    "hudi-rollback-failed-writes": HUDI,
    "hudi-log-compaction": HUDI,
    "hudi-indexing": HUDI,
    "hudi-partition-ttl": HUDI,
    "hudi-find-duplicates": HUDI,
    "iceberg-rewrite-data": ICEBERG,
    "iceberg-rewrite-position-deletes": ICEBERG,
    "iceberg-rewrite-manifests": ICEBERG,
    "iceberg-expire-snapshots": ICEBERG,
    "iceberg-remove-orphans": ICEBERG,
    "iceberg-expire-data": ICEBERG,
    "iceberg-compute-statistics": ICEBERG,
    "iceberg-compute-partition-statistics": ICEBERG,
    "delta-optimize": DELTA,
    "delta-z-order": DELTA,
    "delta-vacuum": DELTA,
    "delta-purge": DELTA,
    "delta-checkpoint": DELTA,
    "delta-clean-log": DELTA,
    "delta-expire-data": DELTA,
    "paimon-compact": PAIMONS,
    "paimon-expire-snapshots": PAIMONS,
    "paimon-remove-orphans": PAIMONS,
    "paimon-expire-partitions": PAIMONS,
    "paimon-expire-tags": PAIMONS,
    "lance-compact": {},  # these three are admitted for the real table that they are given
    "lance-optimize-indices": {},
    "lance-clean-versions": {},
}
# No job is less careful when it only lists, or when it lists more.
VARIANTS: tuple[Mapping[str, Any], ...] = ({}, {"dry_run": True}, {"mode": "full"})


class SessionUsed(BaseException):
    """The job went on to its table: nothing has stopped it. No Exception, so that no job takes it for a failure."""


class Known:
    """Has what it is given; whoever asks for more uses the session."""

    def __init__(self, **known: Any) -> None:
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        raise SessionUsed(name)


def session_that_fails_when_used() -> Any:
    """It may be made the active one, and its settings may be read and written: that touches no table."""
    settings = Known(getAll=list, get=lambda _, default="": default)
    java = Known(SparkSession=Known(setActiveSession=lambda _: None))
    context = Known(getConf=lambda: settings, _jvm=java, _gateway=None)
    return Known(sparkContext=context, conf=Known(set=lambda *_: None), _jsparkSession=Known())


def make_small_table(format: str, path: Path) -> None:
    """As much of a table as its jobs see before they open it; of Lance, which needs no Spark, a whole one."""
    if format == "lance":
        make_lance_table(path)
        return
    for name in (MARKERS[format], "data/part-0.parquet"):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SCHEMA if format == "paimon" else "{}")
    make_old(path)


def make_lance_table(path: Path) -> None:
    """Needs all three actions: small fragments, old versions, an index that misses rows."""
    lance_tables.make_table(path, fragments=4)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    lance_tables.append(path, 1000)
    lance_tables.make_older(path, timedelta(days=20), up_to=3)


def make_place(top: Path, format: str, template: Path, how: str) -> AttackedTable:
    table, outside = top / "lake" / "trips", top / "outside"
    shutil.copytree(template, table, copy_function=shutil.copyfile)
    outside.mkdir()
    (outside / "victim.parquet").write_text("somebody else's")
    make_old(outside)
    location = table
    if how == BY_LINK:
        location = top / "lake" / "by link"
        location.symlink_to(table)
    return AttackedTable(format=format, table=table, location=location, outside=outside)


def work_for(pair: str, place: AttackedTable) -> dict[str, Any]:
    """The parameters of the job, as they are admitted before an attack."""
    action = pair.partition("-")[2]
    if place.format == "lance":
        subject = harness(place.location)
        return dict(subject.admitted(subject.asked(action)).process.parameters)
    return {**JOBS[pair], "location": str(place.location), "boundary": boundary_parameter(str(place.location))}


def run(pair: str, parameters: Mapping[str, Any], session: Any) -> Any:
    return job_called(pair.replace("-", ".", 1))(Job(session, dict(parameters)))
