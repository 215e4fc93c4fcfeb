# SPDX-License-Identifier: Apache-2.0
"""A rewrite in three steps: planned in the driver, executed on the executors, committed in the driver.

All tasks are committed at once; where a writer was faster, those that it did not touch.
"""

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyspark import SparkContext

from lakehand.jobs.lance.datasets import Source

TAG = "lakehand-operation"  # a property of the transaction, by which verification finds it
CONFLICT = "retryable commit conflict"
FULL = 0.75  # of the target: such a fragment is left alone, as the decision to compact assumes
REUSE_INDEX = "__lance_frag_reuse"


class IndicesChanged(Exception):
    """Retryable commit conflict: somebody began to defer the remapping of indices while we rewrote."""


class RewriteOutcome(NamedTuple):
    version: int
    results: list[Any]  # those that were committed


def options_for(dataset: Any, target_rows: int, deleted_share: float) -> dict[str, Any]:
    """What to leave out, and how to treat the indices.

    Row addresses change with a rewrite, so that indices have to follow. It is done at once, unless somebody deferred it
    before: Lance 14 then silently loses rows from the answers of indices if the next rewrite does not defer it, too.
    """
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    return {
        "target_rows_per_fragment": target_rows,
        "materialize_deletions_threshold": deleted_share,
        "excluded_fragment_ids": [f.id for f in fragments if is_full(f, target_rows, deleted_share)],
        "defer_index_remap": is_deferred(dataset),
    }


def is_full(fragment: Any, target_rows: int, deleted_share: float) -> bool:
    rows = fragment.physical_rows or 0
    deleted = (fragment.deletion_file.num_deleted_rows or 0) if fragment.deletion_file else 0
    return bool(rows >= target_rows * FULL and deleted <= deleted_share * rows)


def is_deferred(dataset: Any) -> bool:
    return any(index.name == REUSE_INDEX for index in dataset.describe_indices())


def tasks_within(tasks: Sequence[Any], most_bytes: int) -> list[Any]:
    """The first tasks that together read no more than this; one at least, however large it is."""
    chosen: list[Any] = []
    total = 0
    for task in tasks:
        total += sum(file.file_size_bytes or 0 for fragment in task.fragments for file in fragment.files)
        if chosen and total > most_bytes:
            break
        chosen.append(task)
    return chosen


def rewrite(context: SparkContext, source: Source, tasks: Sequence[Any]) -> list[Any]:
    """One Spark task for each of Lance's; what they write is invisible until it is committed."""
    execute = executor_function(source.uri, source.options)
    pickled = [pickle.dumps(task) for task in tasks]
    return [pickle.loads(one) for one in context.parallelize(pickled, len(pickled)).map(execute).collect()]  # noqa: S301


def executor_function(uri: str, options: dict[str, str]) -> Callable[[bytes], bytes]:
    """What an executor runs. It is pickled whole, so that executors need pylance and nothing of ours.

    Lance has threads of its own, which do not survive a fork. Workers are forked from a daemon that must never have
    imported lance: so the import is here, and the module that this is defined in has none.
    """

    def execute(pickled: bytes) -> bytes:
        import pickle

        import lance

        task = pickle.loads(pickled)  # noqa: S301 - made by our own driver
        return pickle.dumps(
            task.execute(lance.dataset(uri, version=task.read_version, storage_options=options or None))
        )

    return execute


def commit(dataset: Any, results: Sequence[Any], *, options: dict[str, Any], tag: str) -> RewriteOutcome:
    """Raises the conflict when nothing at all could be committed."""
    latest = dataset.checkout_version(dataset.latest_version)
    if is_deferred(latest) != options["defer_index_remap"]:
        raise IndicesChanged(IndicesChanged.__doc__)
    try:
        return RewriteOutcome(commit_at_once(dataset, results, options, tag), list(results))
    except OSError as error:
        if CONFLICT not in str(error).lower() or len(results) == 1:
            raise
        return commit_one_by_one(dataset, results, error, options, tag)


def commit_one_by_one(
    dataset: Any, results: Sequence[Any], conflict: OSError, options: dict[str, Any], tag: str
) -> RewriteOutcome:
    """A writer that deletes rows touches few fragments: the rest of the work need not be lost with them."""
    done: list[Any] = []
    version = 0
    for result in results:
        try:
            version = commit_at_once(dataset, [result], options, tag)
        except OSError as error:
            if CONFLICT not in str(error).lower():
                raise
            continue
        done.append(result)
    if not done:
        raise conflict
    return RewriteOutcome(version, done)


def commit_at_once(dataset: Any, results: Sequence[Any], options: dict[str, Any], tag: str) -> int:
    """The new version. Only a table without indices takes our tag: Lance's own commit of a compaction takes none."""
    if dataset.describe_indices():
        from lance.optimize import Compaction

        Compaction.commit(dataset, list(results), {"defer_index_remap": options["defer_index_remap"]})
        return int(dataset.version)
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
    """The version that has this tag already, if an earlier attempt has committed."""
    for version in range(before + 1, dataset.version + 1):
        try:
            transaction = dataset.read_transaction(version)
        except (OSError, ValueError, TypeError):  # cleaned, or a description that pylance 14.0 cannot build
            continue
        if transaction is not None and (transaction.transaction_properties or {}).get(TAG) == tag:
            return version
    return None
