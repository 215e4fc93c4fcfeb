# SPDX-License-Identifier: Apache-2.0
"""What the log says about a process: success is a commit with its tag, whatever the engine says; and why one failed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakehand.formats.delta.files import row_count
from lakehand.formats.delta.log import Commit, info_of
from lakehand.formats.delta.settings import FULL
from lakehand.formats.delta.snapshot import DeltaSnapshot, tagged, version_before
from lakehand.formats.delta.vacuum import END, LAST_FULL, START, vacuum_of
from lakehand.formats.delta.z_order import CLUSTERED, clusters_of
from lakehand.spi import Finding, Json, Remedy, Verdict, amount, kit
from lakehand.spi.kit.conversions import items
from lakehand.spi.kit.verdicts import done, gone, not_done

NOTHING = "nothing_to_do"  # in a result: the job came to its end, and there was nothing
DeltaEffect = kit.Effect[DeltaSnapshot]

AFTER_CONFLICT = timedelta(minutes=2)  # the writer that won may go on for a while
RULES = (
    kit.rule(r"LiveFileListed", "live-file-listed", Remedy.FATAL, advice="nothing was deleted"),
    kit.rule(r"low retention period", kit.REFUSED, Remedy.FATAL, advice="nothing was deleted"),
    kit.rule(
        r"DELTA_CONCURRENT_|ConcurrentModificationException|Concurrent\w+Exception", "write-conflict",
        delay=AFTER_CONFLICT, advice="a writer committed first, and keeps what it wrote",
    ),
    kit.rule(r"DELTA_(METADATA|PROTOCOL)_CHANGED|(Metadata|Protocol)ChangedException", "table-changed"),
    kit.table_missing(
        r"DELTA_MISSING_DELTA_TABLE|DELTA_TABLE_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|is not a Delta table|"
        r"DELTA_TABLE_ONLY_OPERATION|PATH_NOT_FOUND",
        "Delta",
    ),
    kit.rule(
        r"DELTA_UNSUPPORTED_FEATURES|DELTA_INVALID_PROTOCOL_VERSION|InvalidProtocolVersion", "protocol-unknown",
        Remedy.FATAL, advice="the table wants more than the engine's Delta has",
    ),
    kit.rule(
        r"VACUUM.{0,20}LITE", "lite-impossible", Remedy.FATAL,
        advice="once by listing: `lakehand operations submit {table} {action} --option mode=full`",
    ),
    kit.rule(r"DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST", "file-missing"),
)  # fmt: skip


def verify_rewrite(effect: DeltaEffect) -> Verdict:
    snapshot, action, before = effect.snapshot, effect.process.action, version_before(effect.parameters)
    commits = tagged(snapshot, effect.parameters)
    if snapshot.version < before:
        return is_older(effect)
    if not commits and effect.result.get(NOTHING) is True:
        return done(f"nothing to do: Delta found no files for {action} at version {snapshot.version}", changed=False)
    if not commits:
        return not_done(f"no commit of this operation in the versions {before + 1} to {snapshot.version}")
    counted = count_rewrite(action for _, commit in commits for action in commit)
    rewritten = kit.work_numbers(bytes_rewritten=counted["bytes_removed"])
    versions = ", ".join(str(version) for version, _ in commits)
    return done(f"version {versions}: {in_words(counted)}", numbers(effect, commits, {**counted, **rewritten}))


def verify_z_order(effect: DeltaEffect) -> Verdict:
    """Remember what was ordered: the log forgets it after a month."""
    verdict = verify_rewrite(effect)
    if verdict.finding is Finding.DONE:
        columns = [str(name) for name in items(effect.parameters.get("columns"))]
        effect.table.update_state(CLUSTERED, lambda known: clusters_of(effect.snapshot, columns, known))
    return verdict


def is_older(effect: DeltaEffect) -> Verdict:
    before = version_before(effect.parameters)
    return gone(f"the table is at version {effect.snapshot.version}, and was at {before}")


def count_rewrite(actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    total = dict.fromkeys(("files_removed", "bytes_removed", "files_added", "bytes_added", "rows_in", "rows_out"), 0)
    for action in actions:
        for kind, change, rows in (("remove", "removed", "rows_in"), ("add", "added", "rows_out")):
            if file := action.get(kind):
                total[f"files_{change}"] += 1
                total[f"bytes_{change}"] += file.get("size") or 0
                total[rows] += live_rows(file)
    return total


def live_rows(file: Mapping[str, Any]) -> int:
    """Rows by the statistics, without those that a deletion vector marks; 0 when they are unknown."""
    rows = row_count(file.get("stats"))
    return max(rows - ((file.get("deletionVector") or {}).get("cardinality") or 0), 0) if rows >= 0 else 0


def in_words(counted: Mapping[str, int]) -> str:
    text = (
        f"{counted['files_removed']} files with {amount(counted['bytes_removed'])} became"
        f" {counted['files_added']} with {amount(counted['bytes_added'])}"
    )
    if counted["rows_in"] and counted["rows_out"] and counted["rows_in"] != counted["rows_out"]:
        return f"{text}; {counted['rows_in']} rows went in and {counted['rows_out']} came out: check the table"
    return text


def verify_vacuum(effect: DeltaEffect) -> Verdict:
    if effect.snapshot.version < version_before(effect.parameters):
        return is_older(effect)
    commits = tagged(effect.snapshot, effect.parameters)
    infos = {str(info_of(commit).get("operation")): (commit, info_of(commit)) for _, commit in commits}
    (_, end), (first, start) = infos.get(END, ((), {})), infos.get(START, ((), {}))
    status = (end.get("operationParameters") or {}).get("status")
    if status != "COMPLETED":
        how = f"ended {status}" if end else "began and did not end" if start else "did not begin"
        return not_done(f"the vacuum {how}")
    if start and effect.parameters.get("mode") == FULL:  # the log forgets it after a month
        effect.table.update_state(LAST_FULL, lambda known: max(known, vacuum_of(first, start), key=lambda one: one.at))
    deleted, size = metric(end, "numDeletedFiles"), metric(start, "sizeOfDataToDelete")
    removed = kit.work_numbers(files_removed=deleted)
    counted = numbers(effect, commits, {"files_deleted": deleted, "bytes_deleted": size, **removed})
    reason = f"version {commits[-1][0]}: {deleted} files with {amount(size)} were deleted"
    return done(reason, counted, changed=deleted > 0)


def metric(info: Mapping[str, Any], name: str) -> int:
    text = str((info.get("operationMetrics") or {}).get(name, "0"))
    return int(text) if text.isdigit() else 0


def numbers(effect: DeltaEffect, commits: Sequence[tuple[int, Commit]], counted: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "versions": [version for version, _ in commits],
        **counted,
        "before": effect.parameters.get("before"),
        "after": effect.snapshot.headline,
    }
