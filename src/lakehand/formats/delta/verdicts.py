# SPDX-License-Identifier: Apache-2.0
"""What the log says about a process: success is a commit with its tag, whatever the engine says."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehand.formats.delta.files import row_count
from lakehand.formats.delta.log import Commit, info_of
from lakehand.formats.delta.settings import VACUUM
from lakehand.formats.delta.snapshot import DeltaSnapshot, tagged, version_before
from lakehand.formats.delta.vacuum import END, START
from lakehand.spi import Finding, Json, TableProcess, Verdict, amount

NOTHING = "nothing_to_do"  # in a result: the job came to its end, and there was nothing


def verify(snapshot: DeltaSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    if snapshot.version < version_before(process.parameters):
        seen = version_before(process.parameters)
        return Verdict(finding=Finding.GONE, reason=f"the table is at version {snapshot.version}, and was at {seen}")
    commits = tagged(snapshot, process.parameters)
    if process.action == VACUUM:
        return about_vacuum(snapshot, process, commits)
    return about_rewrite(snapshot, process, commits, result)


def about_rewrite(
    snapshot: DeltaSnapshot, process: TableProcess, commits: Sequence[tuple[int, Commit]], result: Mapping[str, Json]
) -> Verdict:
    if not commits and result.get(NOTHING) is True:
        reason = f"nothing to do: Delta found no files for {process.action} at version {snapshot.version}"
        return Verdict(finding=Finding.DONE, reason=reason, numbers={"changed": False})
    if not commits:
        seen = version_before(process.parameters)
        reason = f"no commit of this operation in the versions {seen + 1} to {snapshot.version}"
        return Verdict(finding=Finding.NOT_DONE, reason=reason)
    counted = count_rewrite(action for _, commit in commits for action in commit)
    versions = [version for version, _ in commits]
    reason = f"version {', '.join(map(str, versions))}: {in_words(counted)}"
    return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers(snapshot, process, versions, counted))


def count_rewrite(actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    total = dict.fromkeys(("files_removed", "bytes_removed", "files_added", "bytes_added", "rows_in", "rows_out"), 0)
    for action in actions:
        if file := action.get("remove"):
            total["files_removed"] += 1
            total["bytes_removed"] += file.get("size") or 0
            total["rows_in"] += live_rows(file)
        elif file := action.get("add"):
            total["files_added"] += 1
            total["bytes_added"] += file.get("size") or 0
            total["rows_out"] += live_rows(file)
    return total


def live_rows(file: Mapping[str, Any]) -> int:
    """Rows by the statistics, without those that a deletion vector marks; 0 when they are not told."""
    rows = row_count(file.get("stats"))
    return max(rows - ((file.get("deletionVector") or {}).get("cardinality") or 0), 0) if rows >= 0 else 0


def in_words(counted: Mapping[str, int]) -> str:
    told = (
        f"{counted['files_removed']} files with {amount(counted['bytes_removed'])} became"
        f" {counted['files_added']} with {amount(counted['bytes_added'])}"
    )
    if counted["rows_in"] and counted["rows_out"] and counted["rows_in"] != counted["rows_out"]:
        return f"{told}; {counted['rows_in']} rows went in and {counted['rows_out']} came out: check the table"
    return told


def about_vacuum(snapshot: DeltaSnapshot, process: TableProcess, commits: Sequence[tuple[int, Commit]]) -> Verdict:
    infos = {str(info.get("operation")): info for info in (info_of(commit) for _, commit in commits)}
    end, start = infos.get(END, {}), infos.get(START, {})
    status = (end.get("operationParameters") or {}).get("status")
    if status != "COMPLETED":
        told = f"ended {status}" if end else "began and did not end" if start else "did not begin"
        return Verdict(finding=Finding.NOT_DONE, reason=f"the vacuum {told}")
    deleted = metric(end, "numDeletedFiles")
    size = metric(start, "sizeOfDataToDelete")
    counted = {"files_deleted": deleted, "bytes_deleted": size}
    reason = f"version {commits[-1][0]}: {deleted} files with {amount(size)} were deleted"
    versions = [version for version, _ in commits]
    found = numbers(snapshot, process, versions, counted)
    return Verdict(finding=Finding.DONE, reason=reason, numbers={**found, "changed": deleted > 0})


def metric(info: Mapping[str, Any], name: str) -> int:
    text = str((info.get("operationMetrics") or {}).get(name, "0"))
    return int(text) if text.isdigit() else 0


def numbers(
    snapshot: DeltaSnapshot, process: TableProcess, versions: Sequence[int], counted: Mapping[str, int]
) -> dict[str, Json]:
    return {
        "changed": True,
        "versions": list(versions),
        **counted,
        "before": process.parameters.get("before"),
        "after": snapshot.headline,
    }
