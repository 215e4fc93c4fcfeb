# SPDX-License-Identifier: Apache-2.0
"""Whether data files, delete files and manifests are worth rewriting. What was just rewritten never is again."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import ceil

from lakehand.formats.iceberg import settings
from lakehand.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile
from lakehand.formats.iceberg.partitions import PartitionNames
from lakehand.formats.iceberg.settings import IcebergContext
from lakehand.formats.iceberg.snapshot import SMALL_SHARE, IcebergSnapshot, whole_number
from lakehand.spi import Json, Skip, amount, health
from lakehand.spi.kit import CHANGED, NamedPartitions, Need, choose

DELETES_TARGET_BYTES = 64 * health.MB
MOST_PARTITIONS = 200  # partitions that one run names
MANIFEST_TARGET_BYTES = 8 * health.MB


def target_bytes(context: IcebergContext) -> int:
    return context.values.get(settings.TARGET) or context.snapshot.target_bytes


def small_bytes(context: IcebergContext) -> int:
    return int(target_bytes(context) * SMALL_SHARE)


def decide_data(context: IcebergContext) -> Need | Skip:
    files, limit, least = context.snapshot.data_files, small_bytes(context), context.values[settings.MIN_INPUT_FILES]
    heavy = heavy_files(context)
    groups = group_by_partition(
        (file for file in files if file.size < limit or file.path in heavy), context.snapshot.spec
    )
    worth = {
        partition: group
        for partition, group in groups.items()
        if is_worth(group, least, target_bytes(context)) or any(file.path in heavy for file in group)
    }
    text = f"{sum(file.size < limit for file in files)} of {len(files)} files are under {amount(limit)}"
    text += describe_heavy(context, heavy)
    if not worth:
        most = max((len(group) for group in groups.values()), default=0)
        return Skip(reason=f"{text}; at most {most} in one partition, {least} are worth it")
    chosen = [file for group in worth.values() for file in group]
    size, partitions = sum(file.size for file in chosen), {file.group for file in files}
    where = f"{len(chosen)} files in {len(worth)} of {max(len(partitions), 1)} partitions"
    first, parameters = choose_first(context, {partition: len(group) for partition, group in worth.items()})
    return Need(reason=f"{text}: {amount(size)} to rewrite, {where}{first}", parameters=parameters, bytes=size)


def choose_first(context: IcebergContext, files: Mapping[Hashable, int]) -> tuple[str, dict[str, Json]]:
    """Where one run cannot rewrite all: the partitions to begin with, if events named some. Else Iceberg chooses."""
    changed, names = list(context.changed_partitions), PartitionNames(context.snapshot)
    named, most = NamedPartitions(changed), context.values[settings.MAX_FILES]
    conditions = {partition: names.condition(partition) for partition in files} if changed else {}
    kept: dict[str, Json] = {CHANGED: changed} if changed else {}
    if sum(files.values()) <= most or not conditions or None in conditions.values():
        return "", kept
    ordered = dict(sorted(files.items(), key=lambda one: -one[1]))
    first = {partition for partition in ordered if named.hold(names.values(partition))}
    choice = choose(ordered, first, most=most, parts=MOST_PARTITIONS)
    only: list[Json] = [conditions[partition] for partition in choice.sizes]
    return (choice.text, {**kept, "only": only}) if choice.named else ("", kept)


def data_options(context: IcebergContext) -> dict[str, Json]:
    """The thresholds of the decision, as Iceberg's own planner knows them."""
    values = context.values
    options = {
        "target-file-size-bytes": str(target_bytes(context)),
        "min-file-size-bytes": str(small_bytes(context)),
        "min-input-files": str(values[settings.MIN_INPUT_FILES]),
        "delete-file-threshold": str(values[settings.DELETE_FILES]),
        "delete-ratio-threshold": str(values[settings.DELETE_RATIO]),
        "max-files-to-rewrite": str(values[settings.MAX_FILES]),
        "remove-dangling-deletes": "true",
        "use-starting-sequence-number": "true",
        **rewrite_all(context),
    }
    return {"rewrite": options, "order": settings.order(values)}


def rewrite_all(context: IcebergContext) -> dict[str, str]:
    """For one request, never a setting: it would rewrite everything again and again."""
    return {"rewrite-all": "true"} if context.values[settings.REWRITE_ALL[context.action]] else {}


def is_worth(group: Sequence[ContentFile], least: int, target: int) -> bool:
    """Enough files, and at most half as many afterwards: so a rewrite is never followed by the same rewrite."""
    return len(group) >= least and len(group) >= 2 * outputs(sum(file.size for file in group), target)


def outputs(size: int, target: int) -> int:
    return max(ceil(size / max(target, 1)), 1)


def describe_heavy(context: IcebergContext, heavy: Collection[str]) -> str:
    if not heavy:
        return ""
    count, ratio = context.values[settings.DELETE_FILES], context.values[settings.DELETE_RATIO]
    return f"; {len(heavy)} have {count} delete files or {ratio:.0%} of their rows deleted"


def group_by_partition(files: Iterable[ContentFile], spec: int) -> Mapping[Hashable, list[ContentFile]]:
    """By partition; files of older partition specs are one group, as in Iceberg's own rewrite."""
    groups: dict[Hashable, list[ContentFile]] = defaultdict(list)
    for file in files:
        groups[file.group if file.group[0] == spec else None].append(file)
    return groups


def heavy_files(context: IcebergContext) -> frozenset[str]:
    """Paths of data files that a reader must merge with too many deletes."""
    if not context.snapshot.delete_files:
        return frozenset()
    deletes = DeleteIndex(context.snapshot)
    count, ratio = context.values[settings.DELETE_FILES], context.values[settings.DELETE_RATIO]
    files = context.snapshot.data_files
    return frozenset(file.path for file in files if deletes.count(file) >= count or deletes.ratio(file) >= ratio)


class DeleteIndex:
    """Which delete files apply to which data files, by their partitions and sequence numbers."""

    def __init__(self, snapshot: IcebergSnapshot) -> None:
        self._own: dict[str, list[ContentFile]] = defaultdict(list)
        positions: dict[Hashable, list[int]] = defaultdict(list)
        equalities: dict[Hashable, list[int]] = defaultdict(list)
        for file in snapshot.delete_files:
            if file.reference is not None:
                self._own[file.reference].append(file)
            elif file.content == EQUALITY_DELETES:
                equalities[file.group if len(file.group) > 1 else None].append(file.sequence)
            else:
                positions[file.group].append(file.sequence)
        self._positions = {group: sorted(found) for group, found in positions.items()}
        self._equalities = {group: sorted(found) for group, found in equalities.items()}

    def count(self, file: ContentFile) -> int:
        own = len(self._own.get(file.path, ()))
        shared = self._positions.get(file.group, [])
        later = [self._equalities.get(group, []) for group in (file.group, None)]
        return (
            own
            + len(shared) - bisect_left(shared, file.sequence)
            + sum(len(found) - bisect_right(found, file.sequence) for found in later)
        )  # fmt: skip

    def ratio(self, file: ContentFile) -> float:
        deleted = sum(delete.rows for delete in self._own.get(file.path, ()))
        return min(deleted / file.rows, 1.0) if file.rows else 0.0


def decide_position_deletes(context: IcebergContext) -> Need | Skip:
    snapshot, least = context.snapshot, context.values[settings.DELETES_MIN_INPUT_FILES]
    files = snapshot.position_deletes
    if not files:
        vectors = sum(file.is_vector for file in snapshot.delete_files)
        more = f"; its {vectors} deletion vectors need no merging" if vectors else ""
        return Skip(reason=f"the table has no position delete files{more}")
    live = {file.path for file in snapshot.data_files}
    groups = group_by_partition(files, snapshot.spec).values()
    worth = [group for group in groups if is_worth_merging(snapshot, group, least, live)]
    dangling = sum(file.reference is not None and file.reference not in live for file in files)
    text = f"{len(files)} position delete files for {len(live)} data files, {dangling} of them dangling"
    if not worth:
        most = max(len(group) for group in groups)
        return Skip(
            reason=f"{text}; at most {most} in one partition, and {least} that become half as many are worth it"
        )
    count = sum(len(group) for group in worth)
    size = sum(file.size for group in worth for file in group)
    return Need(reason=f"{text}: {count} in {len(worth)} partitions to merge, {amount(size)}", bytes=size)


def delete_options(context: IcebergContext) -> dict[str, Json]:
    return {
        "rewrite": {"min-input-files": str(context.values[settings.DELETES_MIN_INPUT_FILES]), **rewrite_all(context)}
    }


def is_worth_merging(snapshot: IcebergSnapshot, group: Sequence[ContentFile], least: int, live: set[str]) -> bool:
    """With one delete file per data file, which is Spark's default, only doubles, dangling ones and those about many
    data files can go."""
    target = whole_number(snapshot.properties, "write.delete.target-file-size-bytes", DELETES_TARGET_BYTES)
    small = [file for file in group if file.size < target * SMALL_SHARE]
    if snapshot.version <= 2 and snapshot.properties.get("write.delete.granularity", "file").lower() != "file":
        return is_worth(small, least, target)
    references = {file.reference for file in small if file.reference in live}
    is_shared = any(file.reference is None for file in small)
    return len(small) >= least and len(small) >= 2 * (len(references) + is_shared)


def decide_manifests(context: IcebergContext) -> Need | Skip:
    snapshot, least = context.snapshot, context.values[settings.MIN_MANIFESTS]
    target = whole_number(snapshot.properties, "commit.manifest.target-size-bytes", MANIFEST_TARGET_BYTES)
    mine = [manifest for manifest in snapshot.manifests if manifest.spec == snapshot.spec]
    sizes = {kind: [m.size for m in mine if m.holds_deletes is kind] for kind in (False, True)}
    after = sum(outputs(sum(found), target) for found in sizes.values() if found)
    text = f"{len(mine)} manifests of {amount(sum(manifest.size for manifest in mine))} in all, {after} would do"
    if len(mine) >= least and len(mine) >= 2 * after:
        return Need(reason=text)
    return Skip(reason=f"{text}; {least} that become half as many are worth it")
