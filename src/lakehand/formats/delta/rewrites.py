# SPDX-License-Identifier: Apache-2.0
"""What all rewrites share: targets, the partitions of one run, the room that writers are left, and the verdict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakehand.formats.delta.context import ROOM, DeltaContext, DeltaEffect, is_older, numbers
from lakehand.formats.delta.files import Partition, row_count
from lakehand.formats.delta.log import committed_at, info_of
from lakehand.formats.delta.snapshot import (
    MOST_PARTITIONS,
    TAG_PREFIX,
    TARGET,
    DeltaSnapshot,
    partition_types,
    tagged,
    version_before,
)
from lakehand.spi import Json, ProcessTriggerStrategy, Skip, Verdict, amount, kit
from lakehand.spi.kit import CHANGED, CommitHistory, NamedPartitions, Need, PartitionChoice, choose, leave_room
from lakehand.spi.kit.conversions import moment_of
from lakehand.spi.kit.verdicts import done, not_done

ON_COMMIT = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)
REWRITTEN = frozenset({"OPTIMIZE", "REORG", "DELETE"})  # what Delta calls our commits that rewrite files
ROW_LEVEL = frozenset({"DELETE", "UPDATE", "MERGE"})
HISTORY, STEP = 200, 20  # commits that are read back at most, and at once
NOTHING = "nothing_to_do"  # in a result: the job came to its end, and there was nothing


def target_setting(action: str) -> kit.SettingRow[int]:
    return kit.bytes_setting(
        f"delta.{action}.target-file-bytes", "how large files should become", floor=1, set_by=kit.SetBy.REQUEST,
        default_text="the table's `delta.targetFileSize`, else 128MB",
    )  # fmt: skip


def target_bytes(context: DeltaContext, setting: kit.SettingRow[int]) -> int:
    """A request's, then our setting's, then the table's own idea of how large a file should be."""
    return context.values.get(setting) or context.snapshot.target_bytes or TARGET


def rewrite(
    context: DeltaContext, reason: str, small: int, target: int, partitions: Sequence[Json] | None, *, size: int,
    **more: Json,
) -> Need:  # fmt: skip
    changed: list[Json] = list(context.changed_partitions)
    parameters = {
        "small_bytes": small, "target_bytes": target, "partitions": partitions, **more,
        **({CHANGED: changed} if changed else {}),
    }  # fmt: skip
    return Need(reason=reason, parameters=parameters, bytes=size)


def choose_partitions(context: DeltaContext, sizes: Mapping[Partition, int], most: int) -> PartitionChoice:
    """As many as one run may rewrite, first those that events named; the next run takes the others."""
    named, columns = NamedPartitions(context.changed_partitions), partition_types(context.snapshot)
    changed = [one for one in sizes if named.hold({columns[key][0]: value for key, value in one if key in columns})]
    return choose(sizes, set(changed), most=most, parts=MOST_PARTITIONS)


def leaves_room(context: DeltaContext) -> Skip | None:
    """Leaves writers room: a DELETE, UPDATE or MERGE fails if a rewrite is committed while it runs."""
    now = context.table.now
    return leave_room(history_of(context.snapshot, now), ROOM, context.values, now)


def history_of(snapshot: DeltaSnapshot, now: datetime) -> CommitHistory:
    """Of the last day, as far as the newest commits tell."""
    writes, rewrites, has_row_level = [], [], False
    for at, operation, is_own in recent_commits(snapshot, now - timedelta(days=1)):
        if not is_own:
            writes.append(at)
            has_row_level |= operation in ROW_LEVEL
        elif operation in REWRITTEN:
            rewrites.append(at)
    return CommitHistory(writes, rewrites, has_row_level)


def recent_commits(snapshot: DeltaSnapshot, since: datetime) -> Iterator[tuple[datetime, str, bool]]:
    """Time, operation, and whether it is ours: newest first, up to the first that is older or says no time."""
    newest = snapshot.log.versions[: -HISTORY - 1 : -1]
    try:
        for start in range(0, len(newest), STEP):
            for _, commit in snapshot.log.commits(newest[start : start + STEP]):
                info, at = info_of(commit), moment_of(committed_at(commit))
                if at < since:
                    return
                is_own = str(info.get("userMetadata")).startswith(TAG_PREFIX)
                yield at, str(info.get("operation")), is_own
    except FileNotFoundError:
        return  # the log was cleaned up since we listed it


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
