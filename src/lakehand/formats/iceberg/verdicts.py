# SPDX-License-Identifier: Apache-2.0
"""What the metadata says about a process: our tag in a snapshot, or the snapshots that are no longer there."""

from collections.abc import Mapping, Sequence

from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    IcebergSnapshot,
    SnapshotCommit,
    whole_number,
)
from lakehand.spi import Finding, Json, TableProcess, Verdict
from lakehand.spi.kit import left_outside
from lakehand.spi.pauses import CHANGED

COUNTED = {
    "added_files": "added-data-files",
    "removed_files": "deleted-data-files",
    "added_delete_files": "added-delete-files",
    "removed_delete_files": "removed-delete-files",
    "added_manifests": "manifests-created",
    "removed_manifests": "manifests-replaced",
}


def verify(snapshot: IcebergSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    if process.action == EXPIRE_SNAPSHOTS:
        return about_expiry(snapshot, process, result)
    if process.action == REMOVE_ORPHANS:
        return about_orphans(snapshot, process, result)
    return about_rewrite(snapshot, process, result)


def about_rewrite(snapshot: IcebergSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    """The tag decides. A job that found nothing to do is believed, since then there is nothing to find."""
    tag = str(process.parameters.get("operation_tag") or "")
    commits = snapshot.tagged(tag) if tag else []
    if commits:
        numbers = rewrite_numbers(snapshot, process, commits)
        return Verdict(finding=Finding.DONE, reason=describe_rewrite(process, numbers, commits), numbers=numbers)
    if result.get("rewritten") == 0:
        reason = f"nothing to do: Iceberg found nothing for {process.action}"
        return Verdict(finding=Finding.DONE, reason=reason, numbers={CHANGED: False, "after": snapshot.totals()})
    return Verdict(finding=Finding.NOT_DONE, reason=f"no snapshot carries the tag {tag}: nothing was committed")


def rewrite_numbers(
    snapshot: IcebergSnapshot, process: TableProcess, commits: Sequence[SnapshotCommit]
) -> dict[str, Json]:
    counted = {key: sum(whole_number(c.summary, name, 0) for c in commits) for key, name in COUNTED.items()}
    return {
        CHANGED: True,
        "before": process.parameters.get("seen") or {},
        "after": snapshot.totals(),
        "committed": [commit.id for commit in commits],
        **{key: count for key, count in counted.items() if count},
    }


def describe_rewrite(process: TableProcess, numbers: Mapping[str, Json], commits: Sequence[SnapshotCommit]) -> str:
    kind, key = ("manifests", "manifests") if process.action == REWRITE_MANIFESTS else ("data files", "files")
    if process.action == REWRITE_POSITION_DELETES:
        kind, key = "delete files", "delete_files"
    became = f"{numbers.get(f'removed_{key}', 0)} {kind} became {numbers.get(f'added_{key}', 0)}"
    left, there = (count_of(numbers.get(when), "delete_files") for when in ("after", "before"))
    deletes = f", {there} delete files became {left}" if process.action == REWRITE_DATA and there else ""
    return f"{became}{deletes} in snapshot {', '.join(str(commit.id) for commit in commits)}"


def count_of(totals: Json, key: str) -> int:
    return int(str(totals.get(key, 0))) if isinstance(totals, Mapping) else 0


def about_expiry(snapshot: IcebergSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    asked = numbers_in(process.parameters.get("expire"))
    heads = {ref.snapshot for ref in snapshot.refs.values()}
    kept = set(numbers_in(result.get("kept")))
    left = [one for one in asked if one in snapshot.commits]
    stuck = [one for one in left if one not in heads and one not in kept]
    if stuck:
        return Verdict(finding=Finding.NOT_DONE, reason=f"{len(stuck)} of {len(asked)} snapshots are still there")
    gone = len(asked) - len(left)
    deleted = {key: result[key] for key in ("deleted_files", "left_outside") if key in result}
    numbers: dict[str, Json] = {
        CHANGED: gone > 0, "expired": gone, "before": process.parameters.get("seen") or {},
        "after": snapshot.totals(), **deleted,
    }  # fmt: skip
    if not asked:
        return Verdict(finding=Finding.DONE, reason="nothing to do: no snapshot may go", numbers=numbers)
    held = f"; {len(left)} got a branch or tag meanwhile" if left else ""
    reason = f"{gone} snapshots were expired, {len(snapshot.commits)} are left{held}{left_outside(result)}"
    return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers)


def about_orphans(snapshot: IcebergSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    """Metadata knows nothing of orphans: the job's word counts, if the table can still be read in full."""
    deleted = result.get("deleted_files")
    if not isinstance(deleted, int):
        return Verdict(finding=Finding.NOT_DONE, reason="the removal did not come to its end; the next takes the rest")
    files = len(snapshot.files)
    reason = f"{deleted} orphans were deleted; the table's {files} files are listed as before"
    numbers: dict[str, Json] = {CHANGED: deleted > 0, "before": process.parameters.get("seen") or {}}
    return Verdict(finding=Finding.DONE, reason=reason, numbers={**numbers, "after": snapshot.totals()})


def numbers_in(value: Json) -> list[int]:
    return [item for item in value if isinstance(item, int)] if isinstance(value, (list, tuple)) else []
