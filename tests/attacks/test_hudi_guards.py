# SPDX-License-Identifier: Apache-2.0
"""What Hudi jobs refuse on a table's timeline: plans, markers, properties and classes that lead out; no Spark.

Plans are JSON here, and Avro in ``test_hudi_paths.py``, where real jobs meet them. Attacks that do not exist: an
absolute path in a compaction plan's log files, since Hudi joins their names to the partition's folder.
"""

import json
from pathlib import Path

import pytest

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.hudi import checks
from lakehand.jobs.job import Job
from lakehand.testing.harness import boundary_parameter
from tests.attacks.every_job import Known, session_that_fails_when_used
from tests.attacks.hudi_plans import HOSTILE, INSTANT, SOUND, clustering_plan, compaction_plan


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "lake" / "trips" / ".hoodie" / "timeline").mkdir(parents=True)
    return Job(session_that_fails_when_used(), {"boundary": boundary_parameter(str(tmp_path / "lake" / "trips"))})


def check(job: Job, name: str, content: str) -> None:
    """What every job does with a table whose .hoodie has this file."""
    file = Path(job.boundary.real) / ".hoodie" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    checks.refuse_outside(job, f"{job.boundary.real}/.hoodie/timeline")


@pytest.mark.parametrize("state", ["requested", "inflight"])
@pytest.mark.parametrize("attack", HOSTILE)
def test_a_plan_that_names_files_outside_is_refused(job: Job, tmp_path: Path, attack: str, state: str) -> None:
    plan = HOSTILE[attack]
    name = f"{INSTANT}.{plan.kind}.{state}"
    with pytest.raises(OutsideTable, match=f"not ours to delete or rewrite for {name}: "):
        check(job, f"timeline/{name}", json.dumps(plan.record(tmp_path / "outside" / "a.parquet")))


@pytest.mark.parametrize("kind", SOUND)
def test_a_plan_that_names_the_tables_own_files_is_executed(job: Job, kind: str) -> None:
    check(job, f"timeline/{INSTANT}.{kind}.requested", json.dumps(SOUND[kind]))


def test_a_plan_that_cannot_be_read_is_not_executed(job: Job) -> None:
    with pytest.raises(OutsideTable, match="cannot be read, so nobody knows what it names"):
        check(job, f"timeline/{INSTANT}.clean.requested", "{")


MARKERS = {
    "p=0/x.parquet.marker.CREATE": True,
    "../../outside/a.parquet.marker.CREATE": False,
    "/outside/a.parquet.marker.MERGE": False,
    "s3a://secret/a.parquet.marker.APPEND": False,
}


@pytest.mark.parametrize("line", MARKERS)
def test_markers_that_name_files_outside_are_refused(job: Job, line: str) -> None:
    content = f"p=0/y.parquet.marker.CREATE\n{line}\n"
    if MARKERS[line]:
        check(job, f".temp/{INSTANT}/MARKERS3", content)
        return
    with pytest.raises(OutsideTable, match="not ours to roll back for MARKERS3: "):
        check(job, f".temp/{INSTANT}/MARKERS3", content)


PROPERTIES = {
    ("hoodie.timeline.path", "timeline"): "",
    ("hoodie.timeline.path", "../../../outside"): "hoodie.timeline.path is '../../../outside'",
    ("hoodie.timeline.history.path", "/outside"): "hoodie.timeline.history.path is '/outside'",
    ("hoodie.archivelog.folder", "archived"): "",
    ("hoodie.archivelog.folder", "../../archived"): "hoodie.archivelog.folder is",
    ("hoodie.archivelog.folder", "s3://secret/archived"): "hoodie.archivelog.folder is",
    ("hoodie.bootstrap.base.path", "/outside"): "bootstrapped table.*: /outside",
}


@pytest.mark.parametrize("line", PROPERTIES, ids="=".join)
def test_properties_that_lead_outside_are_refused(job: Job, line: tuple[str, str]) -> None:
    properties = Known(getProperty=dict([line]).get)
    if not PROPERTIES[line]:
        checks.refuse_foreign_folders(job, properties)
        return
    with pytest.raises(OutsideTable, match=PROPERTIES[line]):
        checks.refuse_foreign_folders(job, properties)


CLASSES = {
    "clustering": clustering_plan("p=0/x.parquet", "com.example.Strategy"),
    "logcompaction": compaction_plan("p=0", "com.example.Strategy"),
    "compaction": compaction_plan("p=0", "org.apache.hudisomething.Strategy"),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_a_class_that_is_none_of_hudis_own_is_not_loaded_for_a_plan(job: Job, kind: str) -> None:
    with pytest.raises(OutsideTable, match=r"names the class '.*\.Strategy'"):
        check(job, f"timeline/{INSTANT}.{kind}.requested", json.dumps(CLASSES[kind]))
