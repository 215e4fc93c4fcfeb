# SPDX-License-Identifier: Apache-2.0
"""What the table says about a process: a compaction by its commit user, an expiry and a removal by what is left."""

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.compaction import SORTED, youngest_file
from lakehand.formats.paimon.layout import Document
from lakehand.formats.paimon.orphans import TooMany, count_orphans
from lakehand.formats.paimon.settings import COMPACT, EXPIRE, ORPHANS, SortOrder, paimon_settings
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Finding, Json, TableProcess, TableRuntime, Verdict

Result = Mapping[str, Json]


def verify(table: TableRuntime, snapshot: PaimonSnapshot, process: TableProcess, result: Result) -> Verdict:
    return VERDICTS[process.action](table, snapshot, process, result)


def about_compact(table: TableRuntime, snapshot: PaimonSnapshot, process: TableProcess, result: Result) -> Verdict:
    given = process.parameters
    found = snapshot.tagged(str(given.get("operation_tag")), after=number(given.get("before")))
    if found:
        remember_order(table, snapshot, process, found[0])
        return done_by(snapshot, found, number(given.get("files_before")))
    told = [number(one) for one in as_list(result.get("snapshots"))]
    if told and max(told) < snapshot.earliest:
        reason = f"snapshot {max(told)} was its work, and has expired since: the oldest is {snapshot.earliest}"
        return Verdict(finding=Finding.DONE, reason=reason, numbers={"changed": True})
    if "snapshots" in result and not told:
        reason = "nothing to do: Paimon found nothing to compact"
        return Verdict(finding=Finding.DONE, reason=reason, numbers={"changed": False})
    reason = f"no snapshot after {given.get('before')} is the work of this operation"
    return Verdict(finding=Finding.NOT_DONE, reason=reason)


def done_by(snapshot: PaimonSnapshot, found: list[Document], files_before: int) -> Verdict:
    changes = [entry for document in found for entry in snapshot.manifests.changes(document)]
    removed = [entry.file for entry in changes if not entry.is_added]
    added = [entry.file for entry in changes if entry.is_added]
    ids = ", ".join(str(document["id"]) for document in reversed(found))
    numbers: dict[str, Json] = {
        "changed": True,
        "snapshots": [document["id"] for document in reversed(found)],
        "files_before": files_before,
        "files_after": len(snapshot.files),
        "removed_files": len(removed),
        "added_files": len(added),
        "rewritten_bytes": sum(file.size for file in removed),
        "added_bytes": sum(file.size for file in added),
    }
    reason = (
        f"snapshot {ids}: {len(removed)} files became {len(added)}; {files_before} before, {len(snapshot.files)} now"
    )
    return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers)


def remember_order(table: TableRuntime, snapshot: PaimonSnapshot, process: TableProcess, document: Document) -> None:
    """For the time when the snapshot of the sort has expired."""
    given = process.parameters
    if given.get("strategy") != settings.SORT or not given.get("order_columns"):
        return
    columns = tuple(str(one) for one in as_list(given["order_columns"]))
    order = SortOrder(strategy=str(given["order_strategy"]), columns=columns)
    until = youngest_file(snapshot, document["id"])
    table.update_state(SORTED, lambda _: {str(order): until})


def about_expire(table: TableRuntime, snapshot: PaimonSnapshot, process: TableProcess, result: Result) -> Verdict:
    given = process.parameters
    until, earliest = number(given.get("until")), number(given.get("earliest"))
    left = [one for one in snapshot.ids if one < until]
    before = number(given.get("snapshots_before"))
    numbers: dict[str, Json] = {
        "changed": snapshot.earliest > earliest, "snapshots_before": before, "snapshots_after": len(snapshot.ids),
        "earliest_before": earliest, "earliest_after": snapshot.earliest,
    }  # fmt: skip
    counted = f"{before} snapshots before, {len(snapshot.ids)} now; the oldest is {snapshot.earliest}"
    if not left or "expired" in result:
        rest = f"; {len(left)} were kept by Paimon" if left else ""
        return Verdict(finding=Finding.DONE, reason=f"{counted}{rest}", numbers=numbers)
    return Verdict(finding=Finding.NOT_DONE, reason=f"{len(left)} snapshots before {until} are still there")


def about_orphans(table: TableRuntime, snapshot: PaimonSnapshot, process: TableProcess, result: Result) -> Verdict:
    older_than = datetime.fromtimestamp(number(process.parameters.get("older_than")) / 1000, timezone.utc)
    deleted = result.get("deleted_files")
    try:
        limit = paimon_settings().of(table.config)[settings.LOOK_FILES]
        found = count_orphans(snapshot, older_than, limit)
    except TooMany as many:
        return about_uncounted(str(many), deleted)
    numbers: dict[str, Json] = {"changed": bool(deleted), "orphans_after": found.files, "files_after": found.listed}
    if not found.files:
        how = f"{deleted} were deleted" if isinstance(deleted, int) else "none is left"
        numbers["changed"] = bool(deleted) if isinstance(deleted, int) else True
        return Verdict(finding=Finding.DONE, reason=f"{how}; {found.listed} files belong to snapshots", numbers=numbers)
    return Verdict(finding=Finding.NOT_DONE, reason=f"{found.files} of {found.listed} files belong to no snapshot")


def about_uncounted(many: str, deleted: Json) -> Verdict:
    if not isinstance(deleted, int):
        return Verdict(finding=Finding.NOT_DONE, reason=f"{many}: nobody knows whether any was deleted")
    reason = f"{deleted} files were deleted; {many} are not counted again"
    return Verdict(finding=Finding.DONE, reason=reason, numbers={"changed": deleted > 0})


def number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def as_list(value: Json) -> list[Json]:
    return list(value) if isinstance(value, (list, tuple)) else []


VERDICTS: Mapping[Action, Callable[[TableRuntime, PaimonSnapshot, TableProcess, Result], Verdict]] = {
    COMPACT: about_compact,
    EXPIRE: about_expire,
    ORPHANS: about_orphans,
}
