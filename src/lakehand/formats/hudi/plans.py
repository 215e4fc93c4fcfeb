# SPDX-License-Identifier: Apache-2.0
"""Plans and commits: what the Avro and JSON documents of the timeline say about the size of a piece of work."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehand.storage import parse_json, read_records

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """How much work a plan means. Bytes are what is read, as far as the plan tells."""

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


def is_clustering(document: Mapping[str, Any]) -> bool:
    """Layout 1 calls clustering and insert-overwrite alike: a clustering carries its plan."""
    return document.get("clusteringPlan") is not None


def compaction_size(plan: Mapping[str, Any]) -> PlanSize:
    operations = plan.get("operations") or []
    return PlanSize(
        file_groups=len(operations),
        files=sum(slice_files(o) for o in operations),
        bytes=sum(read_bytes(o.get("metrics")) for o in operations),
        partitions=len({o.get("partitionPath") for o in operations}),
    )


def clustering_size(document: Mapping[str, Any]) -> PlanSize:
    groups = (document.get("clusteringPlan") or {}).get("inputGroups") or []
    slices = [s for group in groups for s in group.get("slices") or []]
    return PlanSize(
        file_groups=len(slices),
        files=sum(slice_files(s) for s in slices),
        bytes=sum(read_bytes(group.get("metrics")) for group in groups),
        partitions=len({s.get("partitionPath") for s in slices}),
    )


def clean_size(plan: Mapping[str, Any]) -> PlanSize:
    doomed = plan.get("filePathsToBeDeletedPerPartition") or plan.get("filesToBeDeletedPerPartition") or {}
    return PlanSize(files=sum(len(files or []) for files in doomed.values()), partitions=len(doomed))


def slice_files(part: Mapping[str, Any]) -> int:
    return len(part.get("deltaFilePaths") or []) + bool(part.get("dataFilePath"))


def read_bytes(metrics: Mapping[str, float] | None) -> int:
    """Plans count base files in whole megabytes and log files in bytes: the larger of the two is nearer."""
    known = metrics or {}
    return max(int(known.get("TOTAL_LOG_FILES_SIZE") or 0), int((known.get("TOTAL_IO_READ_MB") or 0) * MEGABYTE))


def base_files(document: Mapping[str, Any]) -> Iterable[str]:
    """Base files that a plan reads, as paths below the table or absolute ones."""
    groups = (document.get("clusteringPlan") or {}).get("inputGroups") or []
    parts = [*(document.get("operations") or []), *(s for group in groups for s in group.get("slices") or [])]
    for part in parts:
        name = part.get("dataFilePath")
        if name:
            yield name if "/" in name else f"{part.get('partitionPath') or ''}/{name}".lstrip("/")


def commit_numbers(document: Mapping[str, Any]) -> dict[str, int]:
    """What a completed commit wrote."""
    stats = [s for group in (document.get("partitionToWriteStats") or {}).values() for s in group or []]
    replaced = (document.get("partitionToReplaceFileIds") or {}).values()
    numbers = {
        "files_written": len(stats),
        "bytes_written": sum(int(s.get("fileSizeInBytes") or s.get("totalWriteBytes") or 0) for s in stats),
        "rows_written": sum(int(s.get("numWrites") or 0) for s in stats),
        "log_files_compacted": sum(int(s.get("totalLogFilesCompacted") or 0) for s in stats),
        "file_groups_replaced": sum(len(ids or []) for ids in replaced),
    }
    return {key: value for key, value in numbers.items() if value}


def replaced_groups(document: Mapping[str, Any]) -> Iterable[str]:
    """The file groups that a replacecommit took out of the table."""
    for ids in (document.get("partitionToReplaceFileIds") or {}).values():
        yield from ids or []


def clean_numbers(document: Mapping[str, Any]) -> dict[str, int]:
    return {"files_deleted": int(document.get("totalFilesDeleted") or 0)}
