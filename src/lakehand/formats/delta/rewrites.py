# SPDX-License-Identifier: Apache-2.0
"""Whether files are worth rewriting: small ones are merged as Delta packs them, and deletion vectors are applied."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.formats.delta import settings
from lakehand.formats.delta.files import LiveFile, Partition
from lakehand.formats.delta.log import committed_at, info_of
from lakehand.formats.delta.settings import DeltaContext
from lakehand.formats.delta.snapshot import MOST_PARTITIONS, TAG_PREFIX, DeltaSnapshot, name_partitions, partition_types
from lakehand.spi import Json, Skip, amount
from lakehand.spi.kit import CHANGED, CommitHistory, NamedPartitions, Need, PartitionChoice, choose, leave_room
from lakehand.spi.kit.conversions import moment_of

REWRITES = frozenset({settings.OPTIMIZE, settings.Z_ORDER, settings.PURGE})
REWRITTEN = frozenset({"OPTIMIZE", "REORG"})  # what Delta calls their commits
ROW_LEVEL = frozenset({"DELETE", "UPDATE", "MERGE"})
HISTORY, STEP = 200, 20  # commits that are read back at most, and at once
MANY = 50  # times the usual threshold: so many unclustered files are merged whatever their share


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Files of one partition that Delta would merge: each bin becomes one file."""

    partition: Partition
    bins: Sequence[Sequence[LiveFile]]

    @property
    def files(self) -> int:
        return sum(len(one) for one in self.bins)

    @property
    def size(self) -> int:
        return sum(file.size for one in self.bins for file in one)


def decide_optimize(context: DeltaContext) -> Need | Skip:
    if context.snapshot.clustering_columns:
        return decide_clustered(context)
    target, limit = settings.target_bytes(context), small_bytes(context)
    merges = sorted(merges_of(context.snapshot.files.values(), limit=limit, target=target), key=lambda one: -one.files)
    text = describe(context, merges, limit)
    least = context.values[settings.OPTIMIZE_MIN_FILES]
    if not context.by_person and sum(merge.files for merge in merges) < least:
        return Skip(reason=f"{text}; {least} would be worth it")
    sizes = {merge.partition: merge.size for merge in merges}
    chosen = choose_partitions(context, sizes, context.values[settings.OPTIMIZE_MAX_BYTES])
    partitions = name_partitions(context.snapshot, chosen.sizes) if chosen.sizes else None
    return rewrite(context, text + chosen.text, limit, partitions, size=sum(chosen.sizes.values()))


def small_bytes(context: DeltaContext) -> int:
    """A file that is smaller is worth merging with others."""
    return int(settings.target_bytes(context) * context.values[settings.SMALL_FILE_SHARE])


def rewrite(
    context: DeltaContext, reason: str, small: int, partitions: Sequence[Json] | None, *, size: int, **more: Json
) -> Need:
    target = settings.target_bytes(context)
    changed: list[Json] = list(context.changed_partitions)
    parameters = {
        "small_bytes": small, "target_bytes": target, "partitions": partitions, **more,
        **({CHANGED: changed} if changed else {}),
    }  # fmt: skip
    return Need(reason=reason, parameters=parameters, bytes=size)


def describe(context: DeltaContext, merges: Sequence[Merge], limit: int) -> str:
    files = context.snapshot.files.values()
    small = sum(file.size < limit for file in files)
    mergeable, bins = sum(merge.files for merge in merges), sum(len(merge.bins) for merge in merges)
    head = f"{small} of {len(files)} files are under {amount(limit)}"
    if not mergeable:
        return f"{head}, and no two of them would make one file"
    return f"{head}: {amount(sum(merge.size for merge in merges))} in {mergeable} files to rewrite into {bins}"


def merges_of(files: Iterable[LiveFile], *, limit: int, target: int) -> Iterator[Merge]:
    by_partition: dict[Partition, list[LiveFile]] = {}
    for file in files:
        if file.size < limit:
            by_partition.setdefault(file.partition, []).append(file)
    for partition, small in by_partition.items():
        if bins := [one for one in pack(small, target) if len(one) > 1]:
            yield Merge(partition=partition, bins=bins)


def pack(files: Iterable[LiveFile], target: int) -> Iterator[list[LiveFile]]:
    """As Delta packs: smallest first, a new bin as soon as one is full."""
    current: list[LiveFile] = []
    size = 0
    for file in sorted(files, key=lambda file: file.size):
        if current and size + file.size > target:
            yield current
            current, size = [], 0
        current.append(file)
        size += file.size
    if current:
        yield current


def choose_partitions(context: DeltaContext, sizes: Mapping[Partition, int], most: int) -> PartitionChoice:
    """As many as one run may rewrite, first those that events named; the next run takes the others."""
    named, columns = NamedPartitions(context.changed_partitions), partition_types(context.snapshot)
    changed = [one for one in sizes if named.hold({columns[key][0]: value for key, value in one if key in columns})]
    return choose(sizes, set(changed), most=most, parts=MOST_PARTITIONS)


def decide_clustered(context: DeltaContext) -> Need | Skip:
    """Liquid clustering: OPTIMIZE rewrites what is not clustered yet together with what is, up to 100 GB of it."""
    files = context.snapshot.files.values()
    loose = [file for file in files if not file.clustered_by]
    size, total = sum(file.size for file in loose), context.snapshot.size
    text = f"{len(loose)} of {len(files)} files with {amount(size)} of {amount(total)} are not clustered yet"
    least, share = context.values[settings.OPTIMIZE_MIN_FILES], context.values[settings.OPTIMIZE_UNCLUSTERED]
    is_enough = len(loose) >= least and (size >= share * total or len(loose) >= MANY * least)
    if not context.by_person and not is_enough:
        return Skip(reason=f"{text}; {least} files and {share:.0%} would be worth it")
    return rewrite(context, text, small_bytes(context), None, size=size)


def decide_purge(context: DeltaContext) -> Need | Skip:
    files = context.snapshot.with_vectors
    if not files:
        return Skip(reason=f"none of {len(context.snapshot.files)} files has a deletion vector")
    deleted, size = sum(file.deleted for file in files), sum(file.size for file in files)
    rows = sum(file.rows for file in files if file.rows >= 0)
    share = deleted / rows if rows else 1.0
    text = (
        f"{len(files)} of {len(context.snapshot.files)} files have deletion vectors: {deleted} of {rows} rows in them"
        f" ({share:.1%}) are deleted, {amount(size)} to rewrite"
    )
    least, wanted = context.values[settings.PURGE_MIN_FILES], context.values[settings.PURGE_DELETED_SHARE]
    if not context.by_person and (len(files) < least or share < wanted):
        return Skip(reason=f"{text}; {least} files and {wanted:.0%} would be worth it")
    target = settings.target_bytes(context)
    return Need(reason=text, parameters={"small_bytes": target, "target_bytes": target}, bytes=size)


def not_now(context: DeltaContext) -> Skip | None:
    """Leaves writers room: a DELETE, UPDATE or MERGE fails if a rewrite is committed while it runs."""
    if context.action not in REWRITES:
        return None
    now = context.table.now
    return leave_room(history_of(context.snapshot, now), settings.ROOM, context.values, now)


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
