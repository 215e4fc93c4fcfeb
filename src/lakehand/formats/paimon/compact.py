# SPDX-License-Identifier: Apache-2.0
"""Whether a table is worth compacting, and how: small files are packed, sorted runs merged, unsorted files sorted."""

import hashlib
import json
from typing import NamedTuple

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.schema import TableKind
from lakehand.formats.paimon.settings import AUTO, FULL, MINOR, SORT, PaimonContext, SortOrder
from lakehand.formats.paimon.snapshot import OURS, PaimonSnapshot, sorted_runs
from lakehand.spi import Json, Skip, StateKey, TableRuntime, amount
from lakehand.spi.kit import Need, Values

MOST_COUNTS = 5000
BOTTOM_HEAVY = 0.2  # a minor compaction pays while no more than this share of the bytes is above the bottom
SORTED: StateKey[dict[str, int]] = StateKey(name="sorted", default={}, encode=json.dumps, decode=json.loads)


class CompactionPlan(NamedTuple):
    strategy: str
    reason: str
    is_needed: bool
    order: SortOrder | None = None
    bytes: int = 0  # to read


def decide_compact(context: PaimonContext) -> Need | Skip:
    if why := why_never(context.snapshot):
        return Skip(reason=why)
    plan = make_plan(context)
    if (not plan.is_needed and not context.by_person) or (plan.strategy == SORT and plan.order is None):
        return Skip(reason=plan.reason)
    if context.is_confirmed or not (why := why_not_beside_writers(context.snapshot, context.values)):
        return Need(reason=plan.reason, parameters={"strategy": plan.strategy}, bytes=plan.bytes)
    if not context.by_person:
        return Skip(reason=f"{plan.reason}; not compacted: {why}")
    command = f"lakehand operations submit {context.table.table.id} {context.action} --confirm"
    return Skip(reason=f"{why}. To do it all the same: {command}")


def compaction_limits(context: PaimonContext) -> dict[str, Json]:
    plan = make_plan(context)
    return {
        "strategy": plan.strategy,
        "kind": str(context.snapshot.schema.kind),
        # How many small files each partition has, most first: from this the job plans its rounds.
        "counts": [count for _, count in context.snapshot.small_counts.most_common(MOST_COUNTS) if count > 1],
        "min_files": 2 if plan.strategy == FULL else context.values[settings.MIN_FILES],
        "order_strategy": plan.order.strategy if plan.order else None,
        "order_columns": list(plan.order.columns) if plan.order else None,
        "sign": order_suffix(plan.order) if plan.order else None,
        "files_before": len(context.snapshot.files),
    }


def why_never(snapshot: PaimonSnapshot) -> str | None:
    if not snapshot.ids:
        return "the table has no snapshot: nothing was written"
    if snapshot.schema.kind is TableKind.CROSS_PARTITION:
        return "its key does not hold its partition columns: Paimon's Spark cannot compact such a table"
    if lost := snapshot.content.lost:
        return (
            f"{len(lost)} files are deleted that are not in the table, {lost[0].name} first: a change of rows met a "
            "compaction. Check the rows and roll back to the snapshot before; Paimon refuses every compaction here"
        )
    return None


def make_plan(context: PaimonContext) -> CompactionPlan:
    asked = context.values[settings.STRATEGY]
    if asked == SORT:
        return plan_sort(context)
    if context.snapshot.schema.kind is TableKind.PRIMARY_KEY:
        return plan_merge(context.snapshot, context.values, asked)
    return plan_pack(context.snapshot, context.values, asked)


def plan_pack(snapshot: PaimonSnapshot, values: Values, asked: str) -> CompactionPlan:
    """Append tables: partitions, or buckets, with enough small files."""
    least = values[settings.MIN_FILES]
    worth = {key for key, count in snapshot.small_counts.items() if count >= least}
    chosen = [file for file in snapshot.small if (file.partition, file.bucket) in worth]
    small = f"{len(snapshot.small)} of {len(snapshot.files)} files are under {amount(snapshot.schema.small_below)}"
    what = "buckets" if snapshot.schema.kind is TableKind.BUCKETED_APPEND else "partitions"
    where = f"{len(worth)} of {len(snapshot.buckets)} {what} have {least} or more of them"
    read = sum(file.size for file in chosen)
    size = f": {amount(read)} to rewrite" if chosen else ""
    strategy = FULL if snapshot.schema.kind is TableKind.BUCKETED_APPEND or asked == FULL else MINOR
    return CompactionPlan(strategy=strategy, reason=f"{small}, {where}{size}", is_needed=bool(worth), bytes=read)


def plan_merge(snapshot: PaimonSnapshot, values: Values, asked: str) -> CompactionPlan:
    """Tables with a key: buckets with many sorted runs, which every read has to merge."""
    trigger = snapshot.schema.sorted_run_trigger
    limit = values.get(settings.SORTED_RUNS) or max(trigger, 2)
    limit = max(limit, trigger + 1) if asked == MINOR else limit  # below, Paimon finds nothing to pick
    runs = {key: sorted_runs(files) for key, files in snapshot.buckets.items()}
    worth = [key for key, count in runs.items() if count >= limit]
    most = max(runs.values(), default=0)
    counted = f"{len(worth)} of {len(runs)} buckets have {limit} or more sorted runs (most: {most})"
    strategy = choose_merge(snapshot, values, most > trigger) if asked == AUTO else asked
    touched = sum(file.size for key in worth for file in snapshot.buckets[key])
    size = f": {amount(touched)} to merge" if worth else ""
    return CompactionPlan(strategy=strategy, reason=f"{counted}{size}", is_needed=bool(worth), bytes=touched)


def choose_merge(snapshot: PaimonSnapshot, values: Values, can_pick: bool) -> str:
    """Minor while most bytes lie merged at the bottom and the rest is little enough for the driver; else full."""
    deepest = max((file.level for file in snapshot.files), default=0)
    above = sum(file.size for file in snapshot.files if file.level < deepest)
    total = sum(file.size for file in snapshot.files)
    is_little = above <= total * BOTTOM_HEAVY and above <= values[settings.DRIVER_BYTES]
    return MINOR if can_pick and deepest > 0 and is_little else FULL


def plan_sort(context: PaimonContext) -> CompactionPlan:
    snapshot, schema, least = context.snapshot, context.snapshot.schema, context.values[settings.MIN_FILES]
    why = ""
    if schema.kind is not TableKind.APPEND:
        why = f"a {schema.kind} table cannot be sorted: set {settings.STRATEGY.key} to {AUTO}, {MINOR} or {FULL}"
    elif schema.has_deletion_vectors:
        why = "a table with deletion vectors cannot be sorted: the vectors would lose their files"
    if why:
        return CompactionPlan(strategy=SORT, reason=why, is_needed=False)
    order = settings.order(context)
    until = sorted_until(context.table, snapshot, order)
    unsorted = [file for file in snapshot.files if file.created > until]
    size, total = sum(file.size for file in unsorted), sum(file.size for file in snapshot.files) or 1
    needed = context.values[settings.UNSORTED_SHARE]
    reason = (
        f"{len(unsorted)} of {len(snapshot.files)} files ({size / total:.0%} of the bytes) are not sorted by {order}, "
        f"worth it from {needed:.0%} and {least} files: {amount(total)} to rewrite"
    )
    is_needed = size >= needed * total and len(unsorted) >= least
    return CompactionPlan(strategy=SORT, reason=reason, is_needed=is_needed, order=order, bytes=total)


def sorted_until(table: TableRuntime, snapshot: PaimonSnapshot, order: SortOrder) -> int:
    """The age of the youngest sorted file: from the table's history, or from our memory when that has expired."""
    suffix = f"_{order_suffix(order)}"
    for document in snapshot.recent:
        user = str(document.get("commitUser"))
        if user.startswith(OURS) and user.endswith(suffix):
            return youngest_file(snapshot, document["id"])
    return table.state(SORTED).get(str(order), -1)


def youngest_file(snapshot: PaimonSnapshot, number: int) -> int:
    document = snapshot.document(number) or {}
    added = [entry.file.created for entry in snapshot.manifests.changes(document) if entry.is_added]
    return max(added, default=-1)


def order_suffix(order: SortOrder) -> str:
    """The end of the commit user of a sort: short, and another for each order."""
    return "sort-" + hashlib.blake2b(str(order).encode(), digest_size=4).hexdigest()


def why_not_beside_writers(snapshot: PaimonSnapshot, values: Values) -> str | None:
    """Why a compaction could hurt a writer, or the rows."""
    if not values[settings.BESIDE_WRITER] and (why := why_writers_compact(snapshot)):
        return f"{why}; to compact beside it: {settings.BESIDE_WRITER.key}=true"
    if not values[settings.BESIDE_ROW_CHANGES] and (why := why_rows_change(snapshot)):
        return (
            f"{why}. Paimon 0.9 does not check a DELETE, UPDATE or MERGE of a table without a key against a compaction "
            f"at the same time: rows would come back or double. If none runs meanwhile: "
            f"{settings.BESIDE_ROW_CHANGES.key}=true"
        )
    return None


def why_writers_compact(snapshot: PaimonSnapshot) -> str | None:
    """Why a second compaction would conflict. Without buckets Spark's writers do not compact: the history shows it."""
    if snapshot.schema.is_write_only:
        return None
    if snapshot.schema.kind is not TableKind.APPEND:
        return "its writers compact, since the table is not write-only, and the later of two compactions fails"
    for one in snapshot.recent:
        if one.get("commitKind") == "COMPACT" and not str(one.get("commitUser")).startswith(OURS):
            return f"a writer compacts: snapshot {one['id']} is its work, and the table is not write-only"
    return None


def why_rows_change(snapshot: PaimonSnapshot) -> str | None:
    if snapshot.schema.primary_keys:
        return None
    if snapshot.schema.has_deletion_vectors:
        return "the table has deletion vectors"
    for document in snapshot.recent:
        try:
            if document.get("commitKind") == "APPEND" and snapshot.manifests.deleted_files(document):
                return f"snapshot {document['id']} changed rows in place"
        except FileNotFoundError:  # expired since it was listed
            continue
    return None
