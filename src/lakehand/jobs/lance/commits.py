# SPDX-License-Identifier: Apache-2.0
"""Committing rewrites: all at once, and where a writer was faster, those that it did not touch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakehand.jobs.lance.rewriting import is_deferred

TAG = "lakehand-operation"  # a property of the transaction, found again by whoever verifies
CONFLICT = "retryable commit conflict"


class IndicesChanged(Exception):
    """Retryable commit conflict: somebody began to defer the remapping of indices while we rewrote."""


@dataclass(frozen=True)
class RewriteOutcome:
    version: int
    results: list[Any]  # those that were committed


def commit(dataset: Any, results: Sequence[Any], *, options: dict[str, Any], tag: str) -> RewriteOutcome:
    """Raises the conflict when nothing at all could be committed."""
    latest = dataset.checkout_version(dataset.latest_version)
    if is_deferred(latest) != options["defer_index_remap"]:
        raise IndicesChanged(IndicesChanged.__doc__)
    try:
        return RewriteOutcome(commit_at_once(dataset, results, options=options, tag=tag), list(results))
    except OSError as error:
        if CONFLICT not in str(error).lower() or len(results) == 1:
            raise
        return commit_one_by_one(dataset, results, error, options=options, tag=tag)


def commit_one_by_one(
    dataset: Any, results: Sequence[Any], conflict: OSError, *, options: dict[str, Any], tag: str
) -> RewriteOutcome:
    """A writer that deletes rows touches few fragments: the rest of the work need not be lost with them."""
    done: list[Any] = []
    version = 0
    for result in results:
        try:
            version = commit_at_once(dataset, [result], options=options, tag=tag)
        except OSError as error:
            if CONFLICT not in str(error).lower():
                raise
            continue
        done.append(result)
    if not done:
        raise conflict
    return RewriteOutcome(version, done)


def commit_at_once(dataset: Any, results: Sequence[Any], *, options: dict[str, Any], tag: str) -> int:
    """The new version. Only a table without indices takes our tag: Lance's own commit of a compaction takes none."""
    if dataset.describe_indices():
        from lance.optimize import Compaction

        Compaction.commit(dataset, list(results), {"defer_index_remap": options["defer_index_remap"]})
        return int(dataset.version)
    return tagged(dataset, results, tag)


def tagged(dataset: Any, results: Sequence[Any], tag: str) -> int:
    from lance import LanceDataset, LanceOperation, Transaction

    groups = [
        LanceOperation.RewriteGroup(old_fragments=result.original_fragments, new_fragments=result.new_fragments)
        for result in results
    ]
    transaction = Transaction(
        read_version=results[0].read_version,
        operation=LanceOperation.Rewrite(groups=groups, rewritten_indices=[]),
        transaction_properties={TAG: tag},
    )
    return int(LanceDataset.commit(dataset, transaction).version)


def earlier(dataset: Any, before: int, tag: str) -> int | None:
    """The version that carries this tag already, when an earlier attempt has committed."""
    for version in range(before + 1, dataset.version + 1):
        try:
            transaction = dataset.read_transaction(version)
        except (OSError, ValueError, TypeError):  # cleaned, or a description that pylance 14.0 cannot build
            continue
        if transaction is not None and (transaction.transaction_properties or {}).get(TAG) == tag:
            return version
    return None
