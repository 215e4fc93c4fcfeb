# SPDX-License-Identifier: Apache-2.0
"""What a table's files need, in numbers. Pure; what was just rewritten is never found again."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from lakehand.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile
from lakehand.formats.iceberg.settings import DataRules, DeleteRules, ManifestRules
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Skip, amount
from lakehand.spi.kit import Need


def data_need(snapshot: IcebergSnapshot, rules: DataRules) -> Need | Skip:
    heavy = heavy_files(snapshot, rules)
    small = [file for file in snapshot.data_files if file.size < rules.small]
    groups = grouped(
        (file for file in snapshot.data_files if file.size < rules.small or file.path in heavy), snapshot.spec
    )
    worth = [
        group
        for group in groups.values()
        if is_worth(group, rules.min_files, rules.target) or has_heavy_file(group, heavy)
    ]
    told = f"{len(small)} of {len(snapshot.data_files)} files are under {amount(rules.small)}"
    told += describe_heavy(heavy, rules)
    if not worth:
        most = max((len(group) for group in groups.values()), default=0)
        return Skip(reason=f"{told}; at most {most} in one partition, {rules.min_files} are worth it")
    chosen = [file for group in worth for file in group]
    size = amount(sum(file.size for file in chosen))
    where = f"{len(chosen)} files in {len(worth)} of {max(len(partitions(snapshot)), 1)} partitions"
    return Need(reason=f"{told}: {size} to rewrite, {where}")


def is_worth(group: Sequence[ContentFile], least: int, target: int) -> bool:
    """Enough files, and at most half as many afterwards: so a rewrite is never followed by the same rewrite."""
    return len(group) >= least and len(group) >= 2 * outputs(sum(file.size for file in group), target)


def outputs(size: int, target: int) -> int:
    return max(ceil(size / max(target, 1)), 1)


def has_heavy_file(group: Sequence[ContentFile], heavy: Mapping[str, str]) -> bool:
    return any(file.path in heavy for file in group)


def describe_heavy(heavy: Mapping[str, str], rules: DataRules) -> str:
    if not heavy:
        return ""
    return f"; {len(heavy)} have {rules.delete_files} delete files or {rules.delete_ratio:.0%} of their rows deleted"


def grouped(files: Iterable[ContentFile], spec: int) -> Mapping[Hashable, list[ContentFile]]:
    """By partition; files of older partition specs are one group, as in Iceberg's own rewrite."""
    groups: dict[Hashable, list[ContentFile]] = defaultdict(list)
    for file in files:
        groups[file.group if file.group[0] == spec else None].append(file)
    return groups


def partitions(snapshot: IcebergSnapshot) -> set[tuple[Any, ...]]:
    return {file.group for file in snapshot.data_files}


def heavy_files(snapshot: IcebergSnapshot, rules: DataRules) -> Mapping[str, str]:
    """Data files that a reader must merge with too many deletes, by path."""
    if not snapshot.delete_files:
        return {}
    deletes = DeleteIndex(snapshot)
    return {
        file.path: "deletes"
        for file in snapshot.data_files
        if deletes.count(file) >= rules.delete_files or deletes.ratio(file) >= rules.delete_ratio
    }


class DeleteIndex:
    """Which delete files apply to which data files, told by their partitions and sequence numbers."""

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


def deletes_need(snapshot: IcebergSnapshot, rules: DeleteRules) -> Need | Skip:
    files = snapshot.position_deletes
    if not files:
        vectors = sum(file.is_vector for file in snapshot.delete_files)
        more = f"; its {vectors} deletion vectors need no merging" if vectors else ""
        return Skip(reason=f"the table has no position delete files{more}")
    live = {file.path for file in snapshot.data_files}
    groups = grouped(files, snapshot.spec).values()
    worth = [group for group in groups if merges(group, rules, live)]
    dangling = sum(file.reference is not None and file.reference not in live for file in files)
    told = f"{len(files)} position delete files for {len(live)} data files, {dangling} of them dangling"
    if not worth:
        most = max(len(group) for group in groups)
        reason = f"{told}; at most {most} in one partition, and {rules.min_files} that become half as many are worth it"
        return Skip(reason=reason)
    count = sum(len(group) for group in worth)
    size = amount(sum(file.size for group in worth for file in group))
    return Need(reason=f"{told}: {count} in {len(worth)} partitions to merge, {size}")


def merges(group: Sequence[ContentFile], rules: DeleteRules, live: set[str]) -> bool:
    """With one delete file per data file, only doubles, dangling ones and those about many data files can go."""
    small = [file for file in group if file.size < rules.target * 0.75]
    if not rules.by_file:
        return is_worth(small, rules.min_files, rules.target)
    references = {file.reference for file in small if file.reference in live}
    is_shared = any(file.reference is None for file in small)
    after = len(references) + is_shared
    return len(small) >= rules.min_files and len(small) >= 2 * after


def manifests_need(snapshot: IcebergSnapshot, rules: ManifestRules) -> Need | Skip:
    mine = [manifest for manifest in snapshot.manifests if manifest.spec == snapshot.spec]
    sizes = {kind: [m.size for m in mine if m.holds_deletes is kind] for kind in (False, True)}
    after = sum(outputs(sum(found), rules.target) for found in sizes.values() if found)
    size = sum(manifest.size for manifest in mine)
    told = f"{len(mine)} manifests of {amount(size)} in all, {after} would do"
    is_there = len(mine) >= rules.min_manifests and len(mine) >= 2 * after
    if is_there:
        return Need(reason=told)
    return Skip(reason=f"{told}; {rules.min_manifests} that become half as many are worth it")
