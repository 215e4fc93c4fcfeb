# SPDX-License-Identifier: Apache-2.0
"""Compacts: packs small files, merges sorted runs, or sorts files, by what the table is and what is worth it."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from lakehand.formats.paimon.context import PaimonContext, PaimonEffect
from lakehand.formats.paimon.layout import Document, PaimonFile
from lakehand.formats.paimon.schema import TableKind
from lakehand.formats.paimon.snapshot import OURS, Bucket, PaimonSnapshot, sorted_runs
from lakehand.spi import (
    Action,
    Invalid,
    Json,
    ProcessTriggerStrategy,
    Skip,
    StateKey,
    TableRuntime,
    Verdict,
    amount,
    kit,
)
from lakehand.spi.kit import PAIR, Need, Values
from lakehand.spi.kit.conversions import items, whole_number, whole_numbers
from lakehand.spi.kit.verdicts import done, not_done

AUTO, MINOR, FULL, SORT = "auto", "minor", "full", "sort"
MOST_COUNTS = 5000
BOTTOM_HEAVY = 0.2  # a minor compaction pays while no more than this share of the bytes is above the bottom
SORTED: StateKey[dict[str, int]] = StateKey(name="sorted", default={}, encode=json.dumps, decode=json.loads)
_COLUMN = re.compile(r"\w+")
STRATEGY = kit.choice_setting("paimon.compact.strategy", "see above", AUTO, MINOR, FULL, SORT, set_by=kit.SetBy.REQUEST)
MIN_FILES = kit.count_setting(
    "paimon.compact.min-files", "small files of a partition or bucket that make packing worth it", 5, floor=2,
    set_by=kit.SetBy.REQUEST,
)  # fmt: skip
SORTED_RUNS = kit.count_setting(
    "paimon.compact.sorted-runs", "sorted runs of a bucket that make merging worth it", floor=2,
    default_text="the table's trigger, 5",
)  # fmt: skip
TRIGGER = kit.trigger_settings("paimon.compact", "the oldest file that could be merged with another")
DRIVER_BYTES = kit.bytes_setting(
    "paimon.compact.driver-bytes", "`auto` merges in the driver only while no more than this is to be merged",
    256 << 20,
)  # fmt: skip
ORDER_COLUMNS = kit.columns_setting("paimon.compact.order-columns", "columns to sort by", set_by=kit.SetBy.REQUEST)
ORDER_STRATEGY = kit.choice_setting(
    "paimon.compact.order-strategy", "how to sort", "zorder", "hilbert", "order", set_by=kit.SetBy.REQUEST
)
UNSORTED_SHARE = kit.share_setting(
    "paimon.compact.unsorted-share", "share of unsorted bytes that makes sorting worth it", 0.2
)
BESIDE_WRITER = kit.flag_setting("paimon.compact.beside-writer", "compact although a writer does, too", False)
BESIDE_ROW_CHANGES = kit.flag_setting(
    "paimon.compact.beside-row-changes",
    "compact a table without a key although its rows are changed in place: see [Beside writers](#beside-writers)",
    False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    strategy: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.strategy}({','.join(self.columns)})"


class CompactionPlan(NamedTuple):
    strategy: str
    reason: str
    is_needed: bool
    order: SortOrder | None = None
    bytes: int = 0  # to read
    look_again: timedelta | None = None  # when its age makes it due, if it is not needed yet
    by_age: bool = False  # it takes less than the number asks for


def decide(context: PaimonContext) -> Need | Skip:
    if why := why_never(context.snapshot):
        return Skip(reason=why)
    plan = make_plan(context)
    if (not plan.is_needed and not context.by_person) or (plan.strategy == SORT and plan.order is None):
        return Skip(reason=plan.reason, look_again=plan.look_again)
    if context.is_confirmed or not (why := why_not_beside_writers(context.snapshot, context.values)):
        return Need(reason=plan.reason, parameters={"strategy": plan.strategy}, bytes=plan.bytes)
    if not context.by_person:
        return Skip(reason=f"{plan.reason}; not compacted: {why}")
    command = f"lakehand operations submit {context.table.table.id} {context.action} --confirm"
    return Skip(reason=f"{why}. To do it all the same: {command}")


def limits(context: PaimonContext) -> dict[str, Json]:
    plan = make_plan(context)
    return {
        "strategy": plan.strategy,
        "kind": str(context.snapshot.schema.kind),
        # How many small files each partition has, most first: from this the job plans its rounds.
        "counts": [count for _, count in context.snapshot.small_counts.most_common(MOST_COUNTS) if count > 1],
        "min_files": PAIR if plan.strategy == FULL or plan.by_age else context.values[MIN_FILES],
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
    asked = context.values[STRATEGY]
    if asked == SORT:
        return plan_sort(context)
    if context.snapshot.schema.kind is TableKind.PRIMARY_KEY:
        return plan_merge(context, asked)
    return plan_pack(context, asked)


def plan_pack(context: PaimonContext, asked: str) -> CompactionPlan:
    """Append tables: partitions, or buckets, with enough small files."""
    snapshot, trigger, number = context.snapshot, context.trigger(TRIGGER), context.values[MIN_FILES]
    waiting = {
        key: kit.Backlog(len(files) >= number, packable_since(snapshot, files) if trigger.has_age else None)
        for key, files in snapshot.small_buckets.items()
    }
    due = Due.of(trigger, waiting, number)
    many = {key for key, files in snapshot.small_buckets.items() if len(files) >= due.least}
    chosen = [file for key in many for file in snapshot.small_buckets[key]] if due.keys else []
    small = f"{len(snapshot.small)} of {len(snapshot.files)} files are under {amount(snapshot.schema.small_below)}"
    what = "buckets" if snapshot.schema.kind is TableKind.BUCKETED_APPEND else "partitions"
    where = f"{len(many)} of {len(snapshot.buckets)} {what} have {due.least} or more of them"
    size = f": {amount(sum(file.size for file in chosen))} to rewrite" if chosen else ""
    strategy = FULL if snapshot.schema.kind is TableKind.BUCKETED_APPEND or asked == FULL else MINOR
    return due.plan(strategy, f"{small}, {where}{size}", chosen)


def plan_merge(context: PaimonContext, asked: str) -> CompactionPlan:
    """Tables with a key: buckets with many sorted runs, which every read has to merge."""
    snapshot, values, most_runs = context.snapshot, context.values, context.snapshot.schema.sorted_run_trigger
    # A minor one finds nothing to pick in buckets with few runs, however old they are.
    trigger = kit.Trigger(context.table.now) if asked == MINOR else context.trigger(TRIGGER)
    limit = values.get(SORTED_RUNS) or max(most_runs, 2)
    limit = max(limit, most_runs + 1) if asked == MINOR else limit
    runs = {key: sorted_runs(files) for key, files in snapshot.buckets.items()}
    waiting = {
        key: kit.Backlog(count >= limit, unmerged_since(snapshot, snapshot.buckets[key]) if trigger.has_age else None)
        for key, count in runs.items()
    }
    due = Due.of(trigger, waiting, limit)
    many = [key for key, count in runs.items() if count >= due.least]
    most = max(runs.values(), default=0)
    counted = f"{len(many)} of {len(runs)} buckets have {due.least} or more sorted runs (most: {most})"
    strategy = choose_merge(snapshot, values, most > most_runs and not due.by_age) if asked == AUTO else asked
    touched = [file for key in many for file in snapshot.buckets[key]] if due.keys else []
    size = f": {amount(sum(file.size for file in touched))} to merge" if touched else ""
    return due.plan(strategy, f"{counted}{size}", touched)


class Due(NamedTuple):
    """Which parts of a table are due. One call compacts the whole table, so that by age it takes all pairs."""

    trigger: kit.Trigger
    waiting: Mapping[Bucket, kit.Backlog]
    keys: Collection[Bucket]
    least: int
    by_age: bool

    @staticmethod
    def of(trigger: kit.Trigger, waiting: Mapping[Bucket, kit.Backlog], number: int) -> "Due":
        keys = {key for key, one in waiting.items() if trigger.is_due(one)}
        by_age = any(not waiting[key].is_enough for key in keys)
        return Due(trigger, waiting, keys, PAIR if by_age else trigger.least(number, PAIR), by_age)

    def plan(self, strategy: str, text: str, files: Iterable[PaimonFile]) -> CompactionPlan:
        if not self.keys:
            waiting = self.trigger.skip(text, self.waiting.values())
            return CompactionPlan(strategy, waiting.reason, is_needed=False, look_again=waiting.look_again)
        read, why = sum(file.size for file in files), self.trigger.why(self.waiting.values())
        return CompactionPlan(strategy, f"{text}{why}", is_needed=True, bytes=read, by_age=self.by_age)


def packable_since(snapshot: PaimonSnapshot, files: Sequence[PaimonFile]) -> datetime | None:
    """Since when two of a partition's small files could be one."""
    target = max(snapshot.schema.target_size, 1)
    saves = len(files) >= PAIR * ceil(sum(file.size for file in files) / target)
    return kit.mergeable_since(map(snapshot.written_before, files)) if saves else None


def unmerged_since(snapshot: PaimonSnapshot, files: Sequence[PaimonFile]) -> datetime | None:
    """Since when a bucket has had more than one sorted run, of which the newest are the files of level 0."""
    loose = [snapshot.written_before(file) for file in files if file.level == 0]
    return min(loose, default=None) if len(loose) < len(files) else kit.mergeable_since(loose)


def choose_merge(snapshot: PaimonSnapshot, values: Values, can_pick: bool) -> str:
    """Minor while most bytes lie merged at the bottom and the rest is little enough for the driver; else full."""
    deepest = max((file.level for file in snapshot.files), default=0)
    above = sum(file.size for file in snapshot.files if file.level < deepest)
    total = sum(file.size for file in snapshot.files)
    is_little = above <= total * BOTTOM_HEAVY and above <= values[DRIVER_BYTES]
    return MINOR if can_pick and deepest > 0 and is_little else FULL


def plan_sort(context: PaimonContext) -> CompactionPlan:
    snapshot, schema, least = context.snapshot, context.snapshot.schema, context.values[MIN_FILES]
    why = ""
    if schema.kind is not TableKind.APPEND:
        why = f"a {schema.kind} table cannot be sorted: set {STRATEGY.key} to {AUTO}, {MINOR} or {FULL}"
    elif schema.has_deletion_vectors:
        why = "a table with deletion vectors cannot be sorted: the vectors would lose their files"
    if why:
        return CompactionPlan(strategy=SORT, reason=why, is_needed=False)
    order = order_of(context)
    until = sorted_until(context.table, snapshot, order)
    unsorted = [file for file in snapshot.files if file.created > until]
    size, total = sum(file.size for file in unsorted), sum(file.size for file in snapshot.files) or 1
    needed = context.values[UNSORTED_SHARE]
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
    if not values[BESIDE_WRITER] and (why := why_writers_compact(snapshot)):
        return f"{why}; to compact beside it: {BESIDE_WRITER.key}=true"
    if not values[BESIDE_ROW_CHANGES] and (why := why_rows_change(snapshot)):
        return (
            f"{why}. Paimon 0.9 does not check a DELETE, UPDATE or MERGE of a table without a key against a compaction "
            f"at the same time: rows would come back or double. If none runs meanwhile: "
            f"{BESIDE_ROW_CHANGES.key}=true"
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


def order_of(context: PaimonContext) -> SortOrder:
    columns, schema = context.values[ORDER_COLUMNS], context.snapshot.schema
    if not columns or not all(_COLUMN.fullmatch(one) for one in columns):
        raise Invalid(f"cannot sort by {','.join(columns)!r}: {ORDER_COLUMNS.key} names columns")
    if wrong := [one for one in columns if one not in schema.columns or one in schema.partition_keys]:
        raise Invalid(f"cannot sort by {wrong[0]!r}: it is not a column of the table, or the partition's own")
    return SortOrder(strategy=context.values[ORDER_STRATEGY], columns=columns)


def verify(effect: PaimonEffect) -> Verdict:
    snapshot, parameters, result = effect.snapshot, effect.parameters, effect.result
    before = whole_number(parameters.get(kit.BEFORE))
    if commits := snapshot.tagged(str(parameters.get(kit.TAG)), after=before):
        remember_order(effect, commits[0])
        return compaction_verdict(effect, commits)
    reported = whole_numbers(result.get("snapshots"))
    if reported and max(reported) < snapshot.earliest:
        oldest = f"the oldest is {snapshot.earliest}"
        return done(f"snapshot {max(reported)} was its work, and has expired since: {oldest}")
    if "snapshots" in result and not reported:
        return done("nothing to do: Paimon found nothing to compact", changed=False)
    return not_done(f"no snapshot after {parameters.get(kit.BEFORE)} is the work of this operation")


def compaction_verdict(effect: PaimonEffect, commits: list[Document]) -> Verdict:
    snapshot, files_before = effect.snapshot, whole_number(effect.parameters.get("files_before"))
    changes = [entry for document in commits for entry in snapshot.manifests.changes(document)]
    removed = [entry.file.size for entry in changes if not entry.is_added]
    added = [entry.file.size for entry in changes if entry.is_added]
    ids = [document["id"] for document in reversed(commits)]
    numbers: dict[str, Json] = {
        "snapshots": ids,
        "files_before": files_before,
        "files_after": len(snapshot.files),
        "removed_files": len(removed),
        "added_files": len(added),
        "rewritten_bytes": sum(removed),
        "added_bytes": sum(added),
        **kit.work_numbers(files_removed=len(removed), bytes_rewritten=sum(removed)),
    }
    became = f"{len(removed)} files became {len(added)}; {files_before} before, {len(snapshot.files)} now"
    return done(f"snapshot {', '.join(map(str, ids))}: {became}", numbers)


def remember_order(effect: PaimonEffect, document: Document) -> None:
    """For the time when the snapshot of the sort has expired."""
    parameters = effect.parameters
    if parameters.get("strategy") != SORT or not parameters.get("order_columns"):
        return
    columns = tuple(str(one) for one in items(parameters["order_columns"]))
    order = SortOrder(strategy=str(parameters["order_strategy"]), columns=columns)
    until = youngest_file(effect.snapshot, document["id"])
    effect.table.update_state(SORTED, lambda _: {str(order): until})


COMPACT = kit.ActionDefinition(
    name=Action.register("compact"), strategy=ProcessTriggerStrategy(interval=timedelta(hours=6), on_new_snapshot=True),
    settings=(
        STRATEGY, MIN_FILES, SORTED_RUNS, *TRIGGER, DRIVER_BYTES, ORDER_COLUMNS, ORDER_STRATEGY, UNSORTED_SHARE,
        BESIDE_WRITER, BESIDE_ROW_CHANGES,
    ),
    decide=decide, limits=limits, verify=verify,
)  # fmt: skip
