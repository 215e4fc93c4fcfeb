# SPDX-License-Identifier: Apache-2.0
"""Fragments: the pieces that a Lance table is made of, and which of them are worth a rewrite."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FULL = 0.75  # of the target: such a fragment is left alone, or each rewrite would drag it along


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    id: int
    rows: int  # in its files, deleted ones included
    deleted: int
    sizes: tuple[int, ...]  # of its data files
    has_deletions: bool

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    @property
    def deleted_share(self) -> float:
        return self.deleted / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentPlan:
    """What Lance would rewrite."""

    tasks: int
    fragments: tuple[Fragment, ...]

    @property
    def bytes(self) -> int:
        return sum(fragment.bytes for fragment in self.fragments)

    @property
    def files(self) -> int:
        return sum(len(fragment.sizes) for fragment in self.fragments)


def fragment_of(metadata: Any, size_of: Callable[[str], int]) -> Fragment:
    """``size_of`` is asked for files of old writers, which did not write sizes down."""
    deletions = metadata.deletion_file
    return Fragment(
        id=metadata.id,
        rows=metadata.physical_rows or 0,
        deleted=(deletions.num_deleted_rows or 0) if deletions else 0,
        sizes=tuple(file.file_size_bytes or size_of(file.path) for file in metadata.files),
        has_deletions=deletions is not None,
    )


def plan(dataset: Any, fragments: Sequence[Fragment], *, target_rows: int, deleted_share: float) -> FragmentPlan:
    """Asks Lance itself, which merges adjacent fragments only: what it would not rewrite is no candidate."""
    from lance.optimize import Compaction

    found: Any = Compaction.plan(
        dataset,
        {
            "target_rows_per_fragment": target_rows,
            "materialize_deletions_threshold": deleted_share,
            "excluded_fragment_ids": [f.id for f in fragments if is_full(f, target_rows, deleted_share)],
        },
    )
    # The library makes objects of all that it knows of each fragment; their numbers are a sixth of that work.
    ids = {fragment["id"] for task in found.tasks for fragment in json.loads(task.json())["task"]["fragments"]}
    return FragmentPlan(tasks=len(found.tasks), fragments=tuple(f for f in fragments if f.id in ids))


def is_full(fragment: Fragment, target_rows: int, deleted_share: float) -> bool:
    """The job leaves out the same ones: keep the two alike."""
    return fragment.rows >= target_rows * FULL and fragment.deleted_share <= deleted_share
