# SPDX-License-Identifier: Apache-2.0
"""Whether small files are worth merging: Delta's own packing, computed beforehand from the log."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakehand.formats.delta import partitions, settings
from lakehand.formats.delta.files import DataFile, Partition
from lakehand.formats.delta.look import Look, Need
from lakehand.formats.delta.settings import GB, OPTIMIZE
from lakehand.spi import Skip, amount

MIN_FILES = 20
MAX_BYTES = 100 * GB
UNCLUSTERED_SHARE = 0.2
MANY = 50  # times the usual threshold: so many unclustered files are merged whatever their share


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Files of one partition that Delta would merge: each bin becomes one file."""

    partition: Partition
    bins: Sequence[Sequence[DataFile]]

    @property
    def files(self) -> int:
        return sum(len(one) for one in self.bins)

    @property
    def size(self) -> int:
        return sum(file.size for one in self.bins for file in one)


def decide(look: Look) -> Need | Skip:
    if look.snapshot.clustering_columns:
        return decide_clustered(look)
    target = settings.target_bytes(look.config, look.snapshot, OPTIMIZE, look.options.get("target_file_bytes"))
    limit = settings.small_bytes(look.config, target)
    merges = list(merges_of(look.snapshot.files.values(), limit=limit, target=target))
    told = numbers_in_words(look, merges, limit)
    needed = look.config.number("delta.optimize.min-files", MIN_FILES)
    if not look.by_person and sum(merge.files for merge in merges) < needed:
        return Skip(reason=f"{told}; {needed} would be worth it")
    chosen = within(merges, look.config.number("delta.optimize.max-bytes", MAX_BYTES))
    return Need(
        reason=told,
        parameters={
            "small_bytes": limit,
            "target_bytes": target,
            "partitions": partitions.named(look.snapshot, [merge.partition for merge in chosen]) if chosen else None,
        },
    )


def numbers_in_words(look: Look, merges: Sequence[Merge], limit: int) -> str:
    files = look.snapshot.files.values()
    small = sum(file.size < limit for file in files)
    mergeable, bins = sum(merge.files for merge in merges), sum(len(merge.bins) for merge in merges)
    head = f"{small} of {len(files)} files are under {amount(limit)}"
    if not mergeable:
        return f"{head}, and no two of them would make one file"
    return f"{head}: {amount(sum(merge.size for merge in merges))} in {mergeable} files to rewrite into {bins}"


def merges_of(files: Iterable[DataFile], *, limit: int, target: int) -> Iterator[Merge]:
    by_partition: dict[Partition, list[DataFile]] = {}
    for file in files:
        if file.size < limit:
            by_partition.setdefault(file.partition, []).append(file)
    for partition, small in by_partition.items():
        if bins := [one for one in packed(small, target) if len(one) > 1]:
            yield Merge(partition=partition, bins=bins)


def packed(files: Iterable[DataFile], target: int) -> Iterator[list[DataFile]]:
    """As Delta packs: smallest first, a new bin as soon as one is full."""
    current: list[DataFile] = []
    size = 0
    for file in sorted(files, key=lambda file: file.size):
        if current and size + file.size > target:
            yield current
            current, size = [], 0
        current.append(file)
        size += file.size
    if current:
        yield current


def within(merges: Sequence[Merge], most: int) -> list[Merge]:
    """The partitions with the most to merge, as many as one run may rewrite; the next run takes the others."""
    chosen: list[Merge] = []
    size = 0
    for merge in sorted(merges, key=lambda merge: -merge.files)[: partitions.MOST]:
        if chosen and size + merge.size > most:
            break
        chosen.append(merge)
        size += merge.size
    return chosen


def decide_clustered(look: Look) -> Need | Skip:
    """Liquid clustering: OPTIMIZE rewrites what is not clustered yet together with what is, up to 100 GB of it."""
    files = look.snapshot.files.values()
    loose = [file for file in files if not file.clustered_by]
    size, total = sum(file.size for file in loose), look.snapshot.size
    told = f"{len(loose)} of {len(files)} files with {amount(size)} of {amount(total)} are not clustered yet"
    needed = look.config.number("delta.optimize.min-files", MIN_FILES)
    share = look.config.ratio("delta.optimize.unclustered-share", UNCLUSTERED_SHARE)
    enough = len(loose) >= needed and (size >= share * total or len(loose) >= MANY * needed)
    if not look.by_person and not enough:
        return Skip(reason=f"{told}; {needed} files and {share:.0%} would be worth it")
    target = settings.target_bytes(look.config, look.snapshot, OPTIMIZE, look.options.get("target_file_bytes"))
    limit = settings.small_bytes(look.config, target)
    return Need(reason=told, parameters={"small_bytes": limit, "target_bytes": target, "partitions": None})
