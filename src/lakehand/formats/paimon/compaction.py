# SPDX-License-Identifier: Apache-2.0
"""Whether a table is worth compacting, and how: small files are packed, sorted runs merged, unsorted files sorted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lakehand.formats.paimon import settings, sorting
from lakehand.formats.paimon.neighbours import why_beside
from lakehand.formats.paimon.schema import Kind
from lakehand.formats.paimon.settings import AUTO, FULL, MINOR, SORT, Order
from lakehand.formats.paimon.snapshot import Bucket, PaimonSnapshot, sorted_runs
from lakehand.spi import Json, Skip, TableConfig, TableProcess, TableRuntime, amount

MOST_COUNTS = 5000
BOTTOM_HEAVY = 0.2  # a minor compaction pays while no more than this share of the bytes is above the bottom


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    strategy: str
    reason: str
    is_needed: bool
    order: Order | None = None


def decide(table: TableRuntime, snapshot: PaimonSnapshot) -> TableProcess | Skip:
    if why := settings.switched_off(table.config, settings.COMPACT) or why_never(snapshot):
        return Skip(reason=why)
    plan = planned(table, snapshot, {})
    if not plan.is_needed:
        return Skip(reason=plan.reason)
    if why := why_beside(snapshot, table.config):
        return Skip(reason=f"{plan.reason}; not compacted: {why}")
    return TableProcess(
        action=settings.COMPACT, job="paimon.compact", parameters={"strategy": plan.strategy}, reason=plan.reason
    )


def why_never(snapshot: PaimonSnapshot) -> str | None:
    if not snapshot.ids:
        return "the table has no snapshot: nothing was written"
    if snapshot.schema.kind is Kind.CROSS_PARTITION:
        return "its key does not hold its partition columns: Paimon's Spark cannot compact such a table"
    if lost := snapshot.content.lost:
        return (
            f"{len(lost)} files are deleted that are not in the table, {lost[0].name} first: a change of rows met a "
            "compaction. Check the rows and roll back to the snapshot before; Paimon refuses every compaction here"
        )
    return None


def planned(table: TableRuntime, snapshot: PaimonSnapshot, asked: Mapping[str, Json]) -> Plan:
    wished = settings.strategy(table.config, asked)
    if wished == SORT:
        return plan_sort(table, snapshot, asked)
    if snapshot.schema.kind is Kind.PRIMARY_KEY:
        return plan_merge(snapshot, table.config, wished)
    return plan_pack(snapshot, table.config, wished, asked)


def plan_pack(snapshot: PaimonSnapshot, config: TableConfig, wished: str, asked: Mapping[str, Json]) -> Plan:
    """Append tables: partitions, or buckets, with enough small files."""
    least = settings.min_files(config, asked)
    worth = {key for key, count in snapshot.small_counts.items() if count >= least}
    chosen = [file for file in snapshot.small if (file.partition, file.bucket) in worth]
    small = f"{len(snapshot.small)} of {len(snapshot.files)} files are under {amount(snapshot.schema.small_below)}"
    what = "buckets" if snapshot.schema.kind is Kind.BUCKETED_APPEND else "partitions"
    where = f"{len(worth)} of {len(snapshot.buckets)} {what} have {least} or more of them"
    size = f": {amount(sum(file.size for file in chosen))} to rewrite" if chosen else ""
    strategy = FULL if snapshot.schema.kind is Kind.BUCKETED_APPEND or wished == FULL else MINOR
    return Plan(strategy=strategy, reason=f"{small}, {where}{size}", is_needed=bool(worth))


def plan_merge(snapshot: PaimonSnapshot, config: TableConfig, wished: str) -> Plan:
    """Tables with a key: buckets with many sorted runs, which every read has to merge."""
    trigger = snapshot.schema.sorted_run_trigger
    limit = max(config.number(settings.SORTED_RUNS, trigger), 2)
    limit = max(limit, trigger + 1) if wished == MINOR else limit  # below, Paimon finds nothing to pick
    runs = {key: sorted_runs(files) for key, files in snapshot.buckets.items()}
    worth = [key for key, count in runs.items() if count >= limit]
    most = max(runs.values(), default=0)
    counted = f"{len(worth)} of {len(runs)} buckets have {limit} or more sorted runs (most: {most})"
    strategy = chosen_merge(snapshot, config, most > trigger) if wished == AUTO else wished
    touched = sum(file.size for key in worth for file in snapshot.buckets[key])
    size = f": {amount(touched)} to merge" if worth else ""
    return Plan(strategy=strategy, reason=f"{counted}{size}", is_needed=bool(worth))


def chosen_merge(snapshot: PaimonSnapshot, config: TableConfig, can_pick: bool) -> str:
    """Minor while most bytes lie merged at the bottom and the rest is little enough for the driver; else full."""
    deepest = max((file.level for file in snapshot.files), default=0)
    above = sum(file.size for file in snapshot.files if file.level < deepest)
    total = sum(file.size for file in snapshot.files)
    is_little = above <= total * BOTTOM_HEAVY and above <= config.number(settings.DRIVER_BYTES, 256 << 20)
    return MINOR if can_pick and deepest > 0 and is_little else FULL


def plan_sort(table: TableRuntime, snapshot: PaimonSnapshot, asked: Mapping[str, Json]) -> Plan:
    schema = snapshot.schema
    if schema.kind is not Kind.APPEND:
        why = f"a {schema.kind} table cannot be sorted: set {settings.STRATEGY} to {AUTO}, {MINOR} or {FULL}"
        return Plan(strategy=SORT, reason=why, is_needed=False)
    if schema.has_deletion_vectors:
        why = "a table with deletion vectors cannot be sorted: the vectors would lose their files"
        return Plan(strategy=SORT, reason=why, is_needed=False)
    order = settings.order(table.config, asked, schema.columns, schema.partition_keys)
    unsorted = sorting.unsorted(table, snapshot, order)
    size, total = sum(file.size for file in unsorted), sum(file.size for file in snapshot.files) or 1
    needed = table.config.ratio(settings.UNSORTED_SHARE, 0.2)
    reason = (
        f"{len(unsorted)} of {len(snapshot.files)} files ({size / total:.0%} of the bytes) are not sorted by {order}, "
        f"worth while from {needed:.0%} and {settings.min_files(table.config, asked)} files: {amount(total)} to rewrite"
    )
    is_needed = size >= needed * total and len(unsorted) >= settings.min_files(table.config, asked)
    return Plan(strategy=SORT, reason=reason, is_needed=is_needed, order=order)


def counts_of(snapshot: PaimonSnapshot) -> list[Json]:
    """How many small files each partition has, most first: from this the job plans its rounds."""
    counts: Counter[Bucket] = snapshot.small_counts
    return [count for _, count in counts.most_common(MOST_COUNTS) if count > 1]
