# SPDX-License-Identifier: Apache-2.0
"""Merges small files as Delta packs them; in tables with liquid clustering, orders what is not clustered yet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakehand.formats.delta.context import GB, DeltaContext
from lakehand.formats.delta.files import LiveFile, Partition
from lakehand.formats.delta.rewrites import (
    ON_COMMIT,
    choose_partitions,
    leaves_room,
    rewrite,
    target_bytes,
    target_setting,
    verify_rewrite,
)
from lakehand.formats.delta.snapshot import SMALL_SHARE, name_partitions
from lakehand.spi import Action, Skip, amount, kit
from lakehand.spi.kit import PAIR, Need
from lakehand.spi.kit.conversions import moment_of

MANY = 50  # times the usual threshold: so many unclustered files are merged whatever their share
TARGET_BYTES = target_setting("optimize")
SMALL_FILE_SHARE = kit.share_setting(
    "delta.optimize.small-file-share", "files below this share of the target are small", SMALL_SHARE
)
MIN_FILES = kit.count_setting("delta.optimize.min-files", "so many files must be mergeable", 20)
TRIGGER = kit.trigger_settings("delta.optimize", "the oldest small file that could be merged with another")
MAX_BYTES = kit.bytes_setting(
    "delta.optimize.max-bytes", "what one run rewrites at most, in whole partitions; the next run goes on", 100 * GB
)
UNCLUSTERED = kit.share_setting(
    "delta.optimize.unclustered-share", "tables with liquid clustering: the share of bytes that is not clustered yet",
    0.2,
)  # fmt: skip


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

    @property
    def since(self) -> datetime | None:
        """By the files' own times, which every commit and checkpoint keeps."""
        times = (kit.mergeable_since(moment_of(f.modified) for f in one if f.modified) for one in self.bins)
        return min((at for at in times if at), default=None)


def decide(context: DeltaContext) -> Need | Skip:
    if context.snapshot.clustering_columns:
        return decide_clustered(context)
    target, limit = target_bytes(context, TARGET_BYTES), small_bytes(context)
    merges = sorted(merges_of(context.snapshot.files.values(), limit=limit, target=target), key=lambda one: -one.files)
    text, trigger, least = describe(context, merges, limit), context.trigger(TRIGGER), context.values[MIN_FILES]
    is_enough = sum(merge.files for merge in merges) >= least
    waiting = {merge.partition: kit.Backlog(is_enough, merge.since) for merge in merges}
    sizes = {one.partition: one.size for one in merges if context.by_person or trigger.is_due(waiting[one.partition])}
    if not context.by_person and not sizes:
        return trigger.skip(f"{text}; {trigger.least(least, PAIR)} would be worth it", waiting.values())
    text += trigger.why(waiting.values())
    chosen = choose_partitions(context, sizes, context.values[MAX_BYTES])
    partitions = name_partitions(context.snapshot, chosen.sizes) if chosen.sizes else None
    return rewrite(context, text + chosen.text, limit, target, partitions, size=sum(chosen.sizes.values()))


def small_bytes(context: DeltaContext) -> int:
    """A file that is smaller is worth merging with others."""
    return int(target_bytes(context, TARGET_BYTES) * context.values[SMALL_FILE_SHARE])


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


def decide_clustered(context: DeltaContext) -> Need | Skip:
    """Liquid clustering: OPTIMIZE rewrites what is not clustered yet together with what is, up to 100 GB of it."""
    files = context.snapshot.files.values()
    loose = [file for file in files if not file.clustered_by]
    size, total = sum(file.size for file in loose), context.snapshot.size
    text = f"{len(loose)} of {len(files)} files with {amount(size)} of {amount(total)} are not clustered yet"
    least, share = context.values[MIN_FILES], context.values[UNCLUSTERED]
    is_enough = len(loose) >= least and (size >= share * total or len(loose) >= MANY * least)
    if not context.by_person and not is_enough:
        return Skip(reason=f"{text}; {least} files and {share:.0%} would be worth it")
    return rewrite(context, text, small_bytes(context), target_bytes(context, TARGET_BYTES), None, size=size)


OPTIMIZE = kit.ActionDefinition(
    name=Action.register("optimize"), strategy=ON_COMMIT, decide=decide, not_now=leaves_room, verify=verify_rewrite,
    settings=(TARGET_BYTES, SMALL_FILE_SHARE, MIN_FILES, *TRIGGER, MAX_BYTES, UNCLUSTERED),
)  # fmt: skip
