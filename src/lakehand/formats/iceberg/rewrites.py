# SPDX-License-Identifier: Apache-2.0
"""What all rewrites share: what makes one worth it, the room that writers are left, and the verdict."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil

from lakehand.formats.iceberg.commits import MANIFESTS_ONLY, TAG, SnapshotCommit
from lakehand.formats.iceberg.context import ROOM, IcebergContext, IcebergEffect, totals
from lakehand.formats.iceberg.manifests import ContentFile
from lakehand.formats.iceberg.snapshot import IcebergSnapshot, whole_number
from lakehand.spi import Json, ProcessTriggerStrategy, Skip, Verdict, kit
from lakehand.spi.kit import PAIR
from lakehand.spi.kit.conversions import fields, whole_numbers
from lakehand.spi.kit.verdicts import done, not_done

# Rewrites follow commits; what only time makes necessary follows time.
ON_COMMIT = ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True)
ROW_LEVEL = frozenset({"overwrite", "delete"})
COUNTED = {
    "added_files": "added-data-files",
    "removed_files": "deleted-data-files",
    "added_delete_files": "added-delete-files",
    "removed_delete_files": "removed-delete-files",
    "added_manifests": "manifests-created",
    "removed_manifests": "manifests-replaced",
}


def rewrite_all_setting(action: str) -> kit.SettingRow[bool]:
    """For one request, never a property: it would rewrite everything again and again."""
    return kit.flag_setting(
        f"iceberg.{action}.rewrite-all", "everything, whatever its size; for one run only", False,
        set_by=kit.SetBy.REQUEST_ONLY,
    )  # fmt: skip


def rewrite_all(context: IcebergContext, setting: kit.SettingRow[bool]) -> dict[str, str]:
    return {"rewrite-all": "true"} if context.values[setting] else {}


def is_worth(group: Sequence[ContentFile], least: int, target: int) -> bool:
    """Enough files, and at most half as many afterwards: so a rewrite is never followed by the same rewrite."""
    return len(group) >= least and len(group) >= 2 * outputs(sum(file.size for file in group), target)


def backlog(context: IcebergContext, group: Sequence[ContentFile], is_enough: bool, can_merge: bool) -> kit.Backlog:
    """``can_merge``: a rewrite would make them half as many, however few they are. Asked by age alone."""
    return kit.Backlog(is_enough, kit.mergeable_since(map(context.snapshot.added_at, group)) if can_merge else None)


def fewest(trigger: kit.Trigger, waiting: Iterable[kit.Backlog], number: int) -> int:
    """How many files Iceberg is to merge at least: also two, where their age made them due."""
    return PAIR if any(trigger.is_due(one) and not one.is_enough for one in waiting) else number


def outputs(size: int, target: int) -> int:
    return max(ceil(size / max(target, 1)), 1)


def group_by_partition(files: Iterable[ContentFile], spec: int) -> Mapping[Hashable, list[ContentFile]]:
    """By partition; files of older partition specs are one group, as in Iceberg's own rewrite."""
    groups: dict[Hashable, list[ContentFile]] = defaultdict(list)
    for file in files:
        groups[file.group if file.group[0] == spec else None].append(file)
    return groups


def has_committed(context: IcebergContext) -> bool:
    """Whether an earlier attempt has committed: the job sees that, too, and the verdict will."""
    return context.operation is not None and bool(context.snapshot.tagged(context.operation.tag))


def leaves_room(context: IcebergContext) -> Skip | None:
    """Leaves writers room: a row-level write that began before our rewrite is committed would lose against it."""
    if context.snapshot.current is None or has_committed(context):
        return None
    now = context.table.now
    return kit.leave_room(history_of(context.snapshot, now), ROOM, context.values, now)


def history_of(snapshot: IcebergSnapshot, now: datetime) -> kit.CommitHistory:
    """Of all branches: a rewrite of manifests changes no file, so that it does not count."""
    commits = snapshot.commits.values()
    others = [commit for commit in commits if TAG not in commit.summary]
    return kit.CommitHistory(
        writes=[commit.time for commit in others],
        rewrites=[c.time for c in commits if TAG in c.summary and MANIFESTS_ONLY not in c.summary],
        has_row_level_writers=any(
            commit.summary.get("operation") in ROW_LEVEL and now - commit.time < timedelta(days=1) for commit in others
        ),
    )


def verify_rewrite(effect: IcebergEffect, kind: str = "data files", key: str = "files") -> Verdict:
    """The tag decides. A job that found nothing to do is believed, since then there is nothing to find."""
    tag = str(effect.parameters.get(kit.TAG) or "")
    if commits := effect.snapshot.tagged(tag) if tag else []:
        numbers = rewrite_numbers(effect, commits)
        return done(describe_rewrite(numbers, commits, kind, key), numbers)
    if effect.result.get("rewritten") == 0:
        reason = f"nothing to do: Iceberg found nothing for {effect.process.action}"
        return done(reason, {"after": effect.snapshot.totals()}, changed=False)
    if found := [one for one in whole_numbers(effect.result.get("snapshots")) if effect.snapshot.is_built_on(one)]:
        named = ", ".join(map(str, found))
        reason = f"the table is built on snapshot {named} of this operation, which the catalog no longer lists"
        return done(reason, {**totals(effect), "committed": found})
    return not_done(f"no snapshot carries the tag {tag}: nothing was committed")


def rewrite_numbers(effect: IcebergEffect, commits: Sequence[SnapshotCommit]) -> dict[str, Json]:
    counted = {key: sum(whole_number(c.summary, name, 0) for c in commits) for key, name in COUNTED.items()}
    return {
        **totals(effect),
        "committed": [commit.id for commit in commits],
        **{key: count for key, count in counted.items() if count},
        **kit.work_numbers(
            files_removed=counted["removed_files"] + counted["removed_delete_files"],
            bytes_rewritten=sum(whole_number(c.summary, "removed-files-size", 0) for c in commits),
        ),
    }


def describe_rewrite(numbers: Mapping[str, Json], commits: Sequence[SnapshotCommit], kind: str, key: str) -> str:
    became = f"{numbers.get(f'removed_{key}', 0)} {kind} became {numbers.get(f'added_{key}', 0)}"
    left, there = (int(str(fields(numbers[when]).get("delete_files", 0))) for when in ("after", "before"))
    deletes = f", {there} delete files became {left}" if key == "files" and there else ""
    return f"{became}{deletes} in snapshot {', '.join(str(commit.id) for commit in commits)}"
