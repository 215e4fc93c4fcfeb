# SPDX-License-Identifier: Apache-2.0
"""Rewrites in the history of a table: ours carry the operation tag where Lance lets a commit carry one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TAG = "lakehand-operation"  # a property of the transaction; the job writes the same
LONGEST_LOOK = 10_000  # versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    version: int
    tag: str = ""
    removed: int | None = None  # fragments; None: Lance's library cannot read this transaction
    added: int | None = None


def rewrites_since(dataset: Any, before: int) -> Iterator[Rewrite]:
    """All rewrites after a version, oldest first."""
    for version in range(max(before, dataset.version - LONGEST_LOOK) + 1, dataset.version + 1):
        rewrite = rewrite_at(dataset, version)
        if rewrite is not None:
            yield rewrite


def rewrite_at(dataset: Any, version: int) -> Rewrite | None:
    """None also for a version that was cleaned meanwhile, and for one without a transaction."""
    try:
        transaction = dataset.read_transaction(version)
    except TypeError as error:
        # pylance 14.0 cannot build the description of a rewrite that also rewrote indices, and only of such a one.
        return Rewrite(version=version) if "RewrittenIndex" in str(error) else None
    except (OSError, ValueError):
        return None
    if type(getattr(transaction, "operation", None)).__name__ != "Rewrite":
        return None
    groups = list(transaction.operation.groups)
    return Rewrite(
        version=version,
        tag=(transaction.transaction_properties or {}).get(TAG, ""),
        removed=sum(len(list(group.old_fragments)) for group in groups),
        added=sum(len(list(group.new_fragments)) for group in groups),
    )
