# SPDX-License-Identifier: Apache-2.0
"""Plans of Hudi's that name files, as documents and as Hudi writes them; hostile ones are rows of ``HOSTILE``."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from pyspark.sql import SparkSession

INSTANT = "20990101000000000"
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    kind: str  # of the instant on the timeline
    model: str  # Hudi's class for it
    record: Callable[[Path], Record]  # given a file of somebody else

    @property
    def name(self) -> str:
        return f"{INSTANT}.{self.kind}.requested"


def clean_plan(named: str) -> Record:
    found = [{"filePath": named, "isBootstrapBaseFile": False}]
    return {
        "policy": "KEEP_LATEST_COMMITS", "lastCompletedCommitTimestamp": INSTANT, "version": 2,
        "filePathsToBeDeletedPerPartition": {"p=0": found},
    }  # fmt: skip


def old_clean_plan(partition: str, named: str) -> Record:
    """As version 1 has it: names of files by partition."""
    return {"policy": "KEEP_LATEST_COMMITS", "version": 1, "filesToBeDeletedPerPartition": {partition: [named]}}


def clustering_plan(named: str, strategy: str = "org.apache.hudi.X") -> Record:
    part = {"dataFilePath": named, "deltaFilePaths": [], "fileId": "f", "partitionPath": "p=0", "version": 1}
    groups = [{"slices": [part], "metrics": {}, "numOutputFileGroups": 1, "extraMetadata": {}, "version": 1}]
    plan = {"inputGroups": groups, "strategy": {"strategyClassName": strategy, "strategyParams": {}, "version": 1}}
    return {"operationType": "CLUSTER", "clusteringPlan": {**plan, "version": 1}, "version": 1}


def compaction_plan(partition: str, compactor: str = "") -> Record:
    operation = {
        "baseInstantTime": INSTANT, "deltaFilePaths": [".x.log.1_0-1-1"], "dataFilePath": "x.parquet", "fileId": "x",
        "partitionPath": partition, "metrics": {},
    }  # fmt: skip
    strategy = {"strategy": {"compactorClassName": compactor, "strategyParams": {}, "version": 1}} if compactor else {}
    return {"operations": [operation], "version": 2, **strategy}


def index_plan(named: str) -> Record:
    return {"indexPartitionInfos": [{"metadataPartitionPath": named, "indexUptoInstant": INSTANT, "version": 1}]}


def rollback_plan(named: str) -> Record:
    request = {"partitionPath": "p=0", "fileId": "x", "latestBaseInstant": "", "filesToBeDeleted": [named]}
    instant = {"commitTime": INSTANT, "action": "commit"}
    return {"instantToRollback": instant, "RollbackRequests": [{**request, "logBlocksToBeDeleted": {}}], "version": 1}


CLEAN, CLUSTERING, COMPACTION = "HoodieCleanerPlan", "HoodieRequestedReplaceMetadata", "HoodieCompactionPlan"
INDEX, ROLLBACK = "HoodieIndexPlan", "HoodieRollbackPlan"
UP = "../../outside"
HOSTILE: Mapping[str, Plan] = {
    "clean, whole path": Plan(kind="clean", model=CLEAN, record=lambda file: clean_plan(str(file))),
    "clean, climbing": Plan(kind="clean", model=CLEAN, record=lambda _: clean_plan(f"p=0/../{UP}/a.parquet")),
    "clean, another bucket": Plan(kind="clean", model=CLEAN, record=lambda _: clean_plan("s3a://secret/a.parquet")),
    "clean, old names": Plan(kind="clean", model=CLEAN, record=lambda file: old_clean_plan("p=0", str(file))),
    "clean, old partition": Plan(kind="clean", model=CLEAN, record=lambda _: old_clean_plan(UP, "a.parquet")),
    "clustering": Plan(kind="clustering", model=CLUSTERING, record=lambda file: clustering_plan(f"file:{file}")),
    "compaction": Plan(kind="compaction", model=COMPACTION, record=lambda _: compaction_plan(UP)),
    "log compaction": Plan(kind="logcompaction", model=COMPACTION, record=lambda _: compaction_plan(UP)),
    "indexing, climbing": Plan(kind="indexing", model=INDEX, record=lambda _: index_plan(f"../../{UP}")),
    "indexing, whole path": Plan(kind="indexing", model=INDEX, record=lambda file: index_plan(str(file.parent))),
    "rollback": Plan(kind="rollback", model=ROLLBACK, record=lambda file: rollback_plan(str(file))),
}
SOUND: Mapping[str, Record] = {
    "clean": clean_plan("p=0/a.parquet"),
    "clustering": clustering_plan("p=0/a.parquet"),
    "compaction": compaction_plan("p=0", "org.apache.hudi.Compactor"),
    "indexing": index_plan("column_stats"),
    "rollback": rollback_plan("p=0/a.parquet"),
}


def avro(spark: SparkSession, model: str, record: Record) -> bytes:
    """A document as Hudi writes it, with defaults for the rest."""
    java: Any = spark.sparkContext._jvm
    schema = json.loads(str(getattr(java.org.apache.hudi.avro.model, model).getClassSchema().toString()))
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), [record])
    return stream.getvalue()
