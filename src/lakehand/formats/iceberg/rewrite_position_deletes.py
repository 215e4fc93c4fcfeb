# SPDX-License-Identifier: Apache-2.0
"""Merges position delete files, and drops those whose data files are gone."""

from collections.abc import Sequence
from functools import partial

from lakehand.formats.iceberg.context import IcebergContext, IcebergEffect
from lakehand.formats.iceberg.manifests import ContentFile
from lakehand.formats.iceberg.rewrites import (
    ON_COMMIT,
    backlog,
    fewest,
    group_by_partition,
    is_worth,
    leaves_room,
    rewrite_all,
    rewrite_all_setting,
    verify_rewrite,
)
from lakehand.formats.iceberg.snapshot import SMALL_SHARE, IcebergSnapshot, whole_number
from lakehand.spi import Action, Json, Skip, Verdict, amount, health, kit
from lakehand.spi.kit import PAIR, Need

TARGET_BYTES = 64 * health.MB
MIN_INPUT_FILES = kit.count_setting(
    "iceberg.rewrite-position-deletes.min-input-files", "delete files in one partition that make it worth it", 5,
    floor=2, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
TRIGGER = kit.trigger_settings(
    "iceberg.rewrite-position-deletes", "the oldest delete file that could be merged with another"
)
REWRITE_ALL = rewrite_all_setting("rewrite-position-deletes")


def decide(context: IcebergContext) -> Need | Skip:
    snapshot, trigger = context.snapshot, context.trigger(TRIGGER)
    files = snapshot.position_deletes
    if not files:
        vectors = sum(file.is_vector for file in snapshot.delete_files)
        more = f"; its {vectors} deletion vectors need no merging" if vectors else ""
        return Skip(reason=f"the table has no position delete files{more}")
    live = {file.path for file in snapshot.data_files}
    waiting = backlogs(context, live)
    worth = [group for group, one in waiting if trigger.is_due(one)]
    dangling = sum(file.reference is not None and file.reference not in live for file in files)
    text = f"{len(files)} position delete files for {len(live)} data files, {dangling} of them dangling"
    if not worth:
        most, least = max(len(group) for group, _ in waiting), trigger.least(context.values[MIN_INPUT_FILES], PAIR)
        text = f"{text}; at most {most} in one partition, and {least} that become half as many are worth it"
        return trigger.skip(text, [one for _, one in waiting])
    count = sum(len(group) for group in worth)
    size = sum(file.size for group in worth for file in group)
    what, why = f"{count} in {len(worth)} partitions to merge, {amount(size)}", trigger.why(one for _, one in waiting)
    return Need(reason=f"{text}: {what}{why}", bytes=size)


def backlogs(context: IcebergContext, live: set[str]) -> list[tuple[Sequence[ContentFile], kit.Backlog]]:
    """The delete files of each partition."""
    snapshot, trigger, least = context.snapshot, context.trigger(TRIGGER), context.values[MIN_INPUT_FILES]
    groups = group_by_partition(snapshot.position_deletes, snapshot.spec).values()
    enough = [is_worth_merging(snapshot, group, least, live) for group in groups]
    pairs = [trigger.has_age and is_worth_merging(snapshot, group, PAIR, live) for group in groups]
    return list(zip(groups, map(partial(backlog, context), groups, enough, pairs), strict=True))


def options(context: IcebergContext) -> dict[str, Json]:
    trigger, least = context.trigger(TRIGGER), context.values[MIN_INPUT_FILES]
    if trigger.has_age:
        live = {file.path for file in context.snapshot.data_files}
        least = fewest(trigger, (one for _, one in backlogs(context, live)), least)
    return {"rewrite": {"min-input-files": str(least), **rewrite_all(context, REWRITE_ALL)}}


def is_worth_merging(snapshot: IcebergSnapshot, group: Sequence[ContentFile], least: int, live: set[str]) -> bool:
    """With one delete file per data file, which is Spark's default, only doubles, dangling ones and those about many
    data files can go."""
    target = whole_number(snapshot.properties, "write.delete.target-file-size-bytes", TARGET_BYTES)
    small = [file for file in group if file.size < target * SMALL_SHARE]
    if snapshot.version <= 2 and snapshot.properties.get("write.delete.granularity", "file").lower() != "file":
        return is_worth(small, least, target)
    references = {file.reference for file in small if file.reference in live}
    is_shared = any(file.reference is None for file in small)
    return len(small) >= least and len(small) >= 2 * (len(references) + is_shared)


def verify(effect: IcebergEffect) -> Verdict:
    return verify_rewrite(effect, "delete files", "delete_files")


REWRITE_POSITION_DELETES = kit.ActionDefinition(
    name=Action.register("rewrite-position-deletes"), strategy=ON_COMMIT,
    settings=(MIN_INPUT_FILES, *TRIGGER, REWRITE_ALL), decide=decide, limits=options, not_now=leaves_room,
    verify=verify,
)  # fmt: skip
