# SPDX-License-Identifier: Apache-2.0
"""Hudi believes what lies on a table's timeline: plans, markers and properties that name files outside are refused.

Attacks that do not exist here: an absolute path in a compaction plan's log files, since Hudi joins their names to the
partition's folder (a partition that climbs is tried instead).
"""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Action, Scheduling, TableProcess
from tests import hudi_tables as hudi
from tests.attacks.scene import fingerprint, make_old
from tests.jobs.hudi.service import LOCKING, SERVICE, Service

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
PLANNED = ("compaction", "clustering", "clean", "log-compaction", "indexing")
WITHOUT_PLANS = ("archive", "rollback-failed-writes")
ACTIONS = (*PLANNED, *WITHOUT_PLANS, "partition-ttl")
SETTINGS = {**SERVICE, "hudi.indexing.indexes": "record_index", "hudi.indexing.writers-maintain": "true"}
DOOMED: dict[str, Any] = {
    "partitions": ["p0"],
    "older_than": 0,
    "dry_run": False,
    "operation_tag": "7",
}  # admitted for an older table
INSTANT = "20990101000000000"


@dataclass(kw_only=True)
class Target:
    """A table whose actions are admitted before the attack: a hostile file may come a moment later."""

    spark: SparkSession
    table: Path
    processes: dict[str, TableProcess]
    planted: dict[Path, bytes | None] = field(default_factory=dict)

    @property
    def victim(self) -> Path:
        return self.table.parents[1] / "outside" / "a.parquet"

    def plant(self, name: str, content: bytes) -> None:
        path = self.table / ".hoodie" / name
        self.planted.setdefault(path, path.read_bytes() if path.exists() else None)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        checksum = path.with_name(f".{path.name}.crc")  # Hadoop's, of a file that is replaced here by hand
        if checksum.exists():
            self.planted.setdefault(checksum, checksum.read_bytes())
            checksum.unlink()

    def clear(self) -> None:
        for path, content in self.planted.items():
            path.unlink() if content is None else path.write_bytes(content)
        self.planted.clear()

    def stopped(self, action: str) -> str:
        """The error of the job; nothing changes, neither outside nor in the table."""
        before = fingerprint(self.table.parents[1])
        with pytest.raises(OutsideTable) as caught:
            Service(spark=self.spark, path=self.table).execute(self.processes[action])
        assert fingerprint(self.table.parents[1]) == before
        return str(caught.value)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    path = tmp_path_factory.mktemp("hudi") / "lake" / "trips"
    hudi.make_table(spark, path, table_type=hudi.MERGE_ON_READ, commits=3, options=LOCKING)
    service = Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=SETTINGS)
    processes = {action: service.admitted(action) for action in PLANNED}
    clean = processes["clean"]
    processes |= {action: without_need(action, clean) for action in WITHOUT_PLANS}
    processes["partition-ttl"] = replace(clean, job="hudi.partition_ttl", parameters={**clean.parameters, **DOOMED})
    target = Target(spark=spark, table=path, processes=processes)
    target.victim.parent.mkdir()
    target.victim.write_text("somebody else's")
    make_old(target.victim.parent)
    return target


def without_need(action: str, admitted: TableProcess) -> TableProcess:
    """A process that this table does not need, as if it had been admitted: the checks come before everything else."""
    own: dict[str, Any] = {
        "min_commits": 4,
        "max_commits": 5,
        "delta_commits": 2,
        "instants": [INSTANT],
        "dead_after_seconds": 600,
    }
    job = f"hudi.{action.replace('-', '_')}"
    return replace(admitted, action=Action(action), job=job, parameters={**admitted.parameters, **own})


@pytest.fixture
def target(made: Target) -> Iterator[Target]:
    yield made
    made.clear()


def avro(spark: SparkSession, model: str, record: dict[str, Any]) -> bytes:
    """A document as Hudi writes it, with defaults for the rest."""
    java: Any = spark.sparkContext._jvm
    schema = json.loads(str(getattr(java.org.apache.hudi.avro.model, model).getClassSchema().toString()))
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), [record])
    return stream.getvalue()


def clean_plan(named: str) -> dict[str, Any]:
    found = [{"filePath": named, "isBootstrapBaseFile": False}]
    return {
        "policy": "KEEP_LATEST_COMMITS", "lastCompletedCommitTimestamp": INSTANT, "version": 2,
        "filePathsToBeDeletedPerPartition": {"p=0": found},
    }  # fmt: skip


def clustering_plan(named: str, strategy: str = "org.apache.hudi.X") -> dict[str, Any]:
    part = {"dataFilePath": named, "deltaFilePaths": [], "fileId": "f", "partitionPath": "p=0", "version": 1}
    groups = [{"slices": [part], "metrics": {}, "numOutputFileGroups": 1, "extraMetadata": {}, "version": 1}]
    plan = {"inputGroups": groups, "strategy": {"strategyClassName": strategy, "strategyParams": {}, "version": 1}}
    return {"operationType": "CLUSTER", "clusteringPlan": {**plan, "version": 1}, "version": 1}


def compaction_plan(partition: str, compactor: str = "") -> dict[str, Any]:
    operation = {
        "baseInstantTime": INSTANT, "deltaFilePaths": [".x.log.1_0-1-1"], "dataFilePath": "x.parquet", "fileId": "x",
        "partitionPath": partition, "metrics": {},
    }  # fmt: skip
    strategy = {"strategy": {"compactorClassName": compactor, "strategyParams": {}, "version": 1}} if compactor else {}
    return {"operations": [operation], "version": 2, **strategy}


def index_plan(named: str) -> dict[str, Any]:
    return {"indexPartitionInfos": [{"metadataPartitionPath": named, "indexUptoInstant": INSTANT, "version": 1}]}


def rollback_plan(named: str) -> dict[str, Any]:
    request = {"partitionPath": "p=0", "fileId": "x", "latestBaseInstant": "", "filesToBeDeleted": [named]}
    instant = {"commitTime": INSTANT, "action": "commit"}
    return {"instantToRollback": instant, "RollbackRequests": [{**request, "logBlocksToBeDeleted": {}}], "version": 1}


PLANS: dict[str, tuple[str, str, Callable[[Path], dict[str, Any]]]] = {
    "a clean plan with an absolute path": ("clean", "HoodieCleanerPlan", lambda v: clean_plan(str(v))),
    "a clean plan that climbs": ("clean", "HoodieCleanerPlan", lambda _: clean_plan("p=0/../../../outside/a.parquet")),
    "a clean plan for another bucket": ("clean", "HoodieCleanerPlan", lambda _: clean_plan("s3a://secret/a.parquet")),
    "a clustering plan": ("clustering", "HoodieRequestedReplaceMetadata", lambda v: clustering_plan(f"file:{v}")),
    "a compaction plan": ("compaction", "HoodieCompactionPlan", lambda _: compaction_plan("../../outside")),
    "a log compaction plan": ("logcompaction", "HoodieCompactionPlan", lambda _: compaction_plan("../../outside")),
    "an indexing plan": ("indexing", "HoodieIndexPlan", lambda _: index_plan("../../../../outside")),
    "an indexing plan with an absolute path": ("indexing", "HoodieIndexPlan", lambda v: index_plan(str(v.parent))),
    "a rollback plan": ("rollback", "HoodieRollbackPlan", lambda v: rollback_plan(str(v))),
}


@pytest.mark.parametrize("attack", PLANS)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_plan_that_names_files_outside_is_not_executed(target: Target, action: str, attack: str) -> None:
    kind, model, record = PLANS[attack]
    name = f"{INSTANT}.{kind}.requested"
    target.plant(f"timeline/{name}", avro(target.spark, model, record(target.victim)))
    assert f"for {name}" in target.stopped(action)


@pytest.mark.parametrize("action", ACTIONS)
def test_markers_that_name_files_outside_are_not_rolled_back(target: Target, action: str) -> None:
    target.plant(f".temp/{INSTANT}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    lines = (b"p=0/x.parquet.marker.CREATE", b"../../outside/a.parquet.marker.CREATE")
    target.plant(f".temp/{INSTANT}/MARKERS3", b"\n".join(lines))
    assert "../../outside/a.parquet" in target.stopped(action)


PROPERTIES = {
    "hoodie.timeline.path=../../../outside": "hoodie.timeline.path is '../../../outside'",
    "hoodie.timeline.history.path=/outside": "hoodie.timeline.history.path is '/outside'",
    "hoodie.bootstrap.base.path=/outside": "/outside",
    "hoodie.table.name=another": "another table is at",
}


@pytest.mark.parametrize("line", PROPERTIES)
def test_properties_that_lead_outside_or_name_another_table_are_not_followed(target: Target, line: str) -> None:
    key = line.partition("=")[0]
    lines = (target.table / ".hoodie" / "hoodie.properties").read_text().splitlines()
    kept = [one for one in lines if not one.startswith((f"{key}=", "hoodie.table.checksum="))]
    target.plant("hoodie.properties", "\n".join([*kept, line, ""]).encode())
    assert PROPERTIES[line] in target.stopped("clean")


def test_a_class_that_is_none_of_hudis_own_is_not_loaded_for_a_plan(target: Target) -> None:
    plan = clustering_plan(str(target.table / "p=0" / "x.parquet"), "com.example.Strategy")
    document = avro(target.spark, "HoodieRequestedReplaceMetadata", plan)
    target.plant(f"timeline/{INSTANT}.clustering.requested", document)
    assert "names the class 'com.example.Strategy'" in target.stopped("clustering")


def test_a_class_that_is_none_of_hudis_own_is_not_loaded_for_a_log_compaction(target: Target) -> None:
    document = avro(target.spark, "HoodieCompactionPlan", compaction_plan("p0", "com.example.Compactor"))
    target.plant(f"timeline/{INSTANT}.logcompaction.requested", document)
    assert "names the class 'com.example.Compactor'" in target.stopped("log-compaction")
