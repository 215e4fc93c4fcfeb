# SPDX-License-Identifier: Apache-2.0
"""Plans and commits: what the Avro and JSON documents of the timeline say about the size of a piece of work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehand.spi import health
from lakehand.storage import parse_json, read_records

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """How much work a plan means. Bytes are what is read, as far as the plan records it."""

    file_groups: int = 0
    files: int = 0
    bytes: int = 0
    partitions: int = 0

    def __str__(self) -> str:
        return f"{self.file_groups} file groups, {self.files} files, {self.bytes} bytes"


def read_document(content: bytes, path: str = "a document of the timeline") -> dict[str, Any]:
    """The first record of an Avro file, or a JSON document; empty when there is nothing in it."""
    if not content.strip():
        return {}
    found = next(read_records(content, path), {}) if content[:4] == b"Obj\x01" else parse_json(content, path)
    try:
        return dict(found)
    except (TypeError, ValueError) as error:
        raise OSError(f"{path} holds no record: {error}") from error


def is_clustering(document: Document) -> bool:
    """Layout 1 calls clustering and insert-overwrite alike: a clustering carries its plan."""
    return document.get("clusteringPlan") is not None


def clustering_groups(document: Document) -> Sequence[Document]:
    return (document.get("clusteringPlan") or {}).get("inputGroups") or []


def clustering_slices(document: Document) -> list[Document]:
    return [part for group in clustering_groups(document) for part in group.get("slices") or []]


def compaction_size(plan: Document) -> PlanSize:
    operations = plan.get("operations") or []
    return size_of(operations, operations)


def clustering_size(document: Document) -> PlanSize:
    return size_of(clustering_slices(document), clustering_groups(document))


def size_of(slices: Sequence[Document], measured: Sequence[Document]) -> PlanSize:
    """``measured``: the parts of the plan that carry metrics."""
    return PlanSize(
        file_groups=len(slices),
        files=sum(len(s.get("deltaFilePaths") or []) + bool(s.get("dataFilePath")) for s in slices),
        bytes=sum(read_bytes(part.get("metrics") or {}) for part in measured),
        partitions=len({s.get("partitionPath") for s in slices}),
    )


def clean_size(plan: Document) -> PlanSize:
    doomed = plan.get("filePathsToBeDeletedPerPartition") or plan.get("filesToBeDeletedPerPartition") or {}
    return PlanSize(files=sum(len(files or []) for files in doomed.values()), partitions=len(doomed))


def planned_indexes(plan: Document) -> list[str]:
    """The parts of the metadata table that an indexing plan builds, or that a completed one has built."""
    return [str(one.get("metadataPartitionPath")) for one in plan.get("indexPartitionInfos") or []]


def index_size(plan: Document) -> PlanSize:
    return PlanSize(partitions=len(planned_indexes(plan)))


def read_bytes(metrics: Mapping[str, float]) -> int:
    """Plans count base files in whole megabytes and log files in bytes: the larger of the two is nearer."""
    return max(int(metrics.get("TOTAL_LOG_FILES_SIZE") or 0), int((metrics.get("TOTAL_IO_READ_MB") or 0) * health.MB))


def base_files(document: Document) -> Iterable[str]:
    """Base files that a plan reads, as paths below the table or absolute ones."""
    for part in [*(document.get("operations") or []), *clustering_slices(document)]:
        if name := part.get("dataFilePath"):
            yield name if "/" in name else f"{part.get('partitionPath') or ''}/{name}".lstrip("/")


def write_stats(commit: Document) -> list[Document]:
    return [stat for group in (commit.get("partitionToWriteStats") or {}).values() for stat in group or []]


def replaced_groups(commit: Document) -> list[str]:
    """The file groups that a replacecommit took out of the table."""
    return [one for ids in (commit.get("partitionToReplaceFileIds") or {}).values() for one in ids or []]


def commit_numbers(commit: Document) -> dict[str, int]:
    """What a completed commit wrote."""
    stats = write_stats(commit)
    numbers = {
        "files_written": len(stats),
        "bytes_written": sum(int(s.get("fileSizeInBytes") or s.get("totalWriteBytes") or 0) for s in stats),
        "rows_written": sum(int(s.get("numWrites") or 0) for s in stats),
        "log_files_compacted": sum(int(s.get("totalLogFilesCompacted") or 0) for s in stats),
        "file_groups_replaced": len(replaced_groups(commit)),
    }
    removed = numbers["log_files_compacted"] + numbers["file_groups_replaced"]
    shared = {health.FILES_REMOVED: removed, health.BYTES_REWRITTEN: numbers["bytes_written"]}
    return {key: value for key, value in {**numbers, **shared}.items() if value}


def clean_numbers(metadata: Document) -> dict[str, int]:
    """What a completed clean deleted."""
    deleted = int(metadata.get("totalFilesDeleted") or 0)
    return {"files_deleted": deleted, health.FILES_REMOVED: deleted}
