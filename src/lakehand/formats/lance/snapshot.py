# SPDX-License-Identifier: Apache-2.0
"""A Lance table at one version: fragments, history and what holds old versions are read only when someone asks."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakehand.domain.cached_property import cached_property
from lakehand.formats.lance import manifests
from lakehand.formats.lance.manifests import Version
from lakehand.spi import Json, health
from lakehand.storage import Entry, Storage

TARGET_ROWS = 1_048_576
TARGET_BYTES = 4 * 1024**3
DELETED_SHARE = 0.1
FULL = 0.75  # of the target: such a fragment is left alone, or each rewrite would drag it along
OWN_INDEX = "__lance"  # what the names of Lance's own indices begin with
OWN_TARGET = "lance.compaction.target_rows_per_fragment"  # a table may carry Lance's own setting in its manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A piece that a Lance table is made of."""

    id: int
    rows: int  # in its files, deleted ones included
    deleted: int
    sizes: tuple[int, ...]  # of its data files
    has_deletions: bool
    files: tuple[str, ...] = ()  # names of its data files

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    @property
    def deleted_share(self) -> float:
        return self.deleted / self.rows if self.rows else 0.0

    def is_full(self, target_rows: int, deleted_share: float) -> bool:
        """The job leaves out the same ones: keep the two alike."""
        return self.rows >= target_rows * FULL and self.deleted_share <= deleted_share


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentPlan:
    """What Lance would rewrite."""

    fragments: tuple[Fragment, ...]

    @property
    def bytes(self) -> int:
        return sum(fragment.bytes for fragment in self.fragments)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage:
    """An index, and what of the table it does not cover: a search scans that."""

    name: str
    is_vector: bool
    parts: int  # that a search visits
    bytes: int
    uncovered: tuple[int, ...]  # ids of fragments
    rows: int  # in those
    is_known: bool = True  # old indices do not say which fragments they cover


@dataclass(frozen=True, kw_only=True)
class LanceSnapshot:
    """What a Lance table's own metadata says."""

    token: str
    location: str
    version: int
    dataset: Any = field(repr=False, compare=False)
    root: str = field(repr=False)
    storage: Storage = field(repr=False, compare=False)

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        return tuple(fragment_of(f.metadata, self._size_of) for f in self.dataset.get_fragments())

    @cached_property
    def history(self) -> tuple[Version, ...]:
        """The versions that a reader can travel to, oldest first."""
        return manifests.history(self.storage, self.root)

    @cached_property
    def indices(self) -> tuple[str, ...]:
        return tuple(str(index.name) for index in self.dataset.describe_indices())

    @cached_property
    def coverage(self) -> tuple[IndexCoverage, ...]:
        """Of the indices that people made, from the manifest alone: no index is opened."""
        found = self.dataset.describe_indices()
        return tuple(coverage_of(index, self.fragments) for index in found if not index.name.startswith(OWN_INDEX))

    @cached_property
    def held(self) -> Mapping[int, str]:
        """Versions that a tag or a branch holds: they are never cleaned."""
        tags = ((tag["version"], f"tag {name}") for name, tag in self.dataset.tags.list().items() if not tag["branch"])
        branches = ((root_version(branch), f"branch {name}") for name, branch in self.dataset.branches.list().items())
        return dict([*tags, *branches])

    @cached_property
    def identity(self) -> dict[str, Json]:
        """Distinguishes this table from another one at its location, for as long as this version is kept.

        A Lance table has no identity of its own: no id in its manifests, and its first version is cleaned away.
        """
        return {"version": self.version, "transaction": transaction_of(self.dataset, self.version)}

    @property
    def bytes(self) -> int:
        return sum(fragment.bytes for fragment in self.fragments)

    @property
    def physical_rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def deleted_rows(self) -> int:
        return sum(fragment.deleted for fragment in self.fragments)

    @property
    def rows(self) -> int:
        return self.physical_rows - self.deleted_rows

    @property
    def own_target_rows(self) -> str | None:
        return dict(self.dataset.config()).get(OWN_TARGET)

    def target_rows(self, rows: int, size: int) -> int:
        """The rows of a full fragment. Wide rows make fewer, in steps of two, so that the target holds still."""
        if not self.physical_rows or not self.bytes:
            return rows
        fitting = max(size * self.physical_rows // self.bytes, 1)
        return rows if fitting >= rows else 1 << (fitting.bit_length() - 1)

    def plan(self, target_rows: int, deleted_share: float) -> FragmentPlan:
        known = self._plans.get((target_rows, deleted_share))
        if known is None:
            known = make_plan(self.dataset, self.fragments, target_rows=target_rows, deleted_share=deleted_share)
            self._plans[target_rows, deleted_share] = known
        return known

    @cached_property
    def _plans(self) -> dict[tuple[int, float], FragmentPlan]:
        return {}

    def expired(self, cutoff: datetime, retain: int) -> tuple[Version, ...]:
        """Versions that are older than a moment, that nothing holds, and that are not among the newest."""
        old = self.history[: -max(retain, 1)]
        return tuple(version for version in old if version.made_at < cutoff and version.number not in self.held)

    @cached_property
    def numbers(self) -> Mapping[str, Json]:
        worth = self.plan(self.target_rows(TARGET_ROWS, TARGET_BYTES), DELETED_SHARE)
        sizes = [size for fragment in self.fragments for size in fragment.sizes]
        return {
            **health.file_numbers(sizes, [size for fragment in worth.fragments for size in fragment.sizes]),
            health.DELETION_VECTORS: sum(fragment.has_deletions for fragment in self.fragments),
            health.ROWS: self.rows,
            health.SNAPSHOTS: len(self.history),
            health.OLDEST_SNAPSHOT: self.history[0].made_at.isoformat(timespec="seconds") if self.history else None,
            "fragments": len(self.fragments),
            "deleted_rows": self.deleted_rows,
            "version": self.version,
            "held_versions": len(self.held),
            "indices": len(self.indices),
            **({"unindexed_rows": max(index.rows for index in self.coverage)} if self.coverage else {}),
        }

    def totals(self) -> dict[str, Json]:
        """What a rewrite changes."""
        return {
            "fragments": len(self.fragments),
            "files": sum(len(f.sizes) for f in self.fragments),
            "bytes": self.bytes,
            "deleted_rows": self.deleted_rows,
            "rows": self.rows,
        }

    def written_at(self, fragments: Iterable[Fragment]) -> list[datetime]:
        """When the first of its files was written, by the storage's clock, for each fragment that has one here."""
        times = ([self._entries[name].modified for name in f.files if name in self._entries] for f in fragments)
        return [min(found) for found in times if found]

    def _size_of(self, name: str) -> int:
        found = self._entries.get(file_name(name))
        return found.size if found else 0

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        return {entry.name: entry for entry in self.storage.entries(f"{self.root}/data")}


def transaction_of(dataset: Any, version: int) -> str:
    """The name of the transaction's file; empty where an old writer made none. The job finds it in the same way."""
    for batch in dataset.tracked_files(min_version=version):
        for row in batch.to_pylist():
            if row["version"] == version and row["type"] == "transaction file":
                return str(row["path"]).rpartition("/")[2]
    return ""


def root_version(branch: Mapping[str, Any]) -> int:
    """The version of the main line that a branch grew from, also through other branches."""
    line = branch.get("branch_identifier") or [(branch["parent_version"], "")]
    return int(line[0][0])


def fragment_of(metadata: Any, size_of: Callable[[str], int]) -> Fragment:
    """``size_of`` is asked for files of old writers, which did not write sizes down."""
    deletions = metadata.deletion_file
    return Fragment(
        id=metadata.id,
        rows=metadata.physical_rows or 0,
        deleted=(deletions.num_deleted_rows or 0) if deletions else 0,
        sizes=tuple(file.file_size_bytes or size_of(file.path) for file in metadata.files),
        has_deletions=deletions is not None,
        files=tuple(file_name(file.path) for file in metadata.files),
    )


def file_name(path: str) -> str:
    return path.rpartition("/")[2]


def coverage_of(index: Any, fragments: Sequence[Fragment]) -> IndexCoverage:
    covered = [part.fragment_ids for part in index.segments]
    known = {one for ids in covered if ids is not None for one in ids}
    left = [fragment for fragment in fragments if fragment.id not in known]
    return IndexCoverage(
        name=str(index.name), is_vector=str(index.index_type).startswith("IVF"), parts=len(covered),
        bytes=index.total_size_bytes or 0, uncovered=tuple(fragment.id for fragment in left),
        rows=sum(fragment.rows - fragment.deleted for fragment in left),
        is_known=all(ids is not None for ids in covered),
    )  # fmt: skip


def make_plan(dataset: Any, fragments: Sequence[Fragment], *, target_rows: int, deleted_share: float) -> FragmentPlan:
    """Asks Lance itself, which merges adjacent fragments only: what it would not rewrite is not a candidate."""
    from lance.optimize import Compaction

    found: Any = Compaction.plan(
        dataset,
        {
            "target_rows_per_fragment": target_rows,
            "materialize_deletions_threshold": deleted_share,
            "excluded_fragment_ids": [f.id for f in fragments if f.is_full(target_rows, deleted_share)],
        },
    )
    # The library makes objects of all that it knows of each fragment; their numbers are a sixth of that work.
    ids = {fragment["id"] for task in found.tasks for fragment in json.loads(task.json())["task"]["fragments"]}
    return FragmentPlan(fragments=tuple(f for f in fragments if f.id in ids))
