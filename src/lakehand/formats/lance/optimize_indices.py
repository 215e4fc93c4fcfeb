# SPDX-License-Identifier: Apache-2.0
"""Takes new rows into the indices, and merges the parts of an index that each search has to visit."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakehand.formats.lance.context import VERSIONS_READ, LanceContext, LanceEffect, change, cool_down, why_gone
from lakehand.formats.lance.snapshot import IndexCoverage, LanceSnapshot
from lakehand.spi import Action, Json, ProcessTriggerStrategy, Skip, Verdict, amount, kit
from lakehand.spi.kit import Need, Values
from lakehand.spi.kit.conversions import fields, items, whole_number
from lakehand.spi.kit.verdicts import done, gone, not_done

UNINDEXED_ROWS = kit.count_setting(
    "lance.optimize-indices.unindexed-rows", "rows outside of an index that make it worth it", 10_000, floor=1
)
UNINDEXED_SHARE = kit.share_setting(
    "lance.optimize-indices.unindexed-share", "or this share of the table's rows, if that is fewer", 0.1
)
MAX_PARTS = kit.count_setting(
    "lance.optimize-indices.max-parts", "an index of vectors with more parts is merged into one", 10, floor=1
)
MAX_ROWS = kit.count_setting(
    "lance.optimize-indices.max-rows", "more rows than this are not added to an index in the driver", 50_000_000,
    floor=1, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MAX_INDEX_BYTES = kit.bytes_setting(
    "lance.optimize-indices.max-bytes", "a larger index is not rewritten in the driver; one of vectors gets new parts",
    4 * 1024**3, floor=1, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
COOL_DOWN = cool_down("optimize-indices")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """What is done to one index: new rows are added, and all of its parts merged into one if they are too many."""

    index: IndexCoverage
    is_merge: bool
    refused: str = ""  # why it is not done although it is worth it

    def as_parameter(self) -> dict[str, Json]:
        return {"name": self.index.name, "merge": self.is_merge, "rows": self.index.rows, "parts": self.index.parts}


def decide(context: LanceContext) -> Need | Skip:
    found, plans = context.snapshot.coverage, make_plans(context)
    if not found:
        return Skip(reason="the table has 0 indices")
    refused = "".join(f"; {plan.index.name} is left: {plan.refused}" for plan in plans if plan.refused)
    if chosen := [plan.index for plan in plans if not plan.refused]:
        each = "; ".join(describe(index, context.snapshot) for index in chosen)
        return Need(reason=f"{len(chosen)} of {len(found)} indices are worth optimising: {each}{refused}")
    worst = max(found, key=lambda index: (index.rows, index.parts))
    rows, share = context.values[UNINDEXED_ROWS], context.values[UNINDEXED_SHARE]
    limits = f"worth it from {rows} rows, {share:.0%} or more than {context.values[MAX_PARTS]} parts"
    return Skip(reason=f"{describe(worst, context.snapshot)}, the most of {len(found)} indices; {limits}{refused}")


def describe(index: IndexCoverage, snapshot: LanceSnapshot) -> str:
    if not index.is_known:
        return f"{index.name} does not say which of {len(snapshot.fragments)} fragments it covers"
    where = f"{len(index.uncovered)} of {len(snapshot.fragments)} fragments"
    parts = f"{index.parts} parts" if index.parts != 1 else "1 part"
    return f"{index.name} has {parts} and does not cover {index.rows} of {snapshot.rows} rows ({where})"


def make_plans(context: LanceContext) -> list[IndexPlan]:
    plans = (plan_index(index, context) for index in context.snapshot.coverage)
    return [plan for plan in plans if plan is not None]


def plan_index(index: IndexCoverage, context: LanceContext) -> IndexPlan | None:
    """None: it is not worth it. A person gets every index whose rows are not all covered."""
    values = context.values
    is_merge = index.parts > values[MAX_PARTS]
    least = 1 if context.by_person else least_rows(context)
    if not index.is_known or (index.rows < least and not is_merge):
        return None
    if index.rows > (most := values[MAX_ROWS]):
        return IndexPlan(index=index, is_merge=is_merge, refused=f"{index.rows} rows are more than {most}")
    is_light = index.bytes <= values[MAX_INDEX_BYTES]
    if not is_light and not (index.is_vector and index.rows >= least):
        return IndexPlan(index=index, is_merge=is_merge, refused=too_large(index, values))
    return IndexPlan(index=index, is_merge=is_merge and is_light)  # without a merge, new vectors are one more part


def least_rows(context: LanceContext) -> int:
    share = context.values[UNINDEXED_SHARE] * context.snapshot.rows
    return max(min(context.values[UNINDEXED_ROWS], int(share)), 1)


def too_large(index: IndexCoverage, values: Values) -> str:
    return f"{amount(index.bytes)} to rewrite are more than {amount(values[MAX_INDEX_BYTES])}"


def limits(context: LanceContext) -> dict[str, Json]:
    chosen: list[Any] = [plan.as_parameter() for plan in make_plans(context) if not plan.refused]
    return {
        "indices": chosen,
        # Fragments are numbered as they are made: later ones are not promised.
        "newest_fragment": max((fragment.id for fragment in context.snapshot.fragments), default=-1),
        "seen": context.snapshot.totals(),
    }


def verify(effect: LanceEffect) -> Verdict:
    """Each index covers the fragments that were there at the admission, unless somebody has dropped it."""
    if why := why_gone(effect):
        return gone(why)
    snapshot, newest = effect.snapshot, whole_number(effect.parameters.get("newest_fragment"))
    chosen = {str(one.get("name")): one for one in map(fields, items(effect.parameters.get("indices")))}
    there = [index for index in snapshot.coverage if index.name in chosen]
    versions = index_versions(snapshot.dataset, whole_number(effect.parameters.get(kit.BEFORE)), chosen)
    left = [index.name for index in there if any(fragment <= newest for fragment in index.uncovered)]
    left += [one.name for one in there if chosen[one.name].get("merge") and one.parts > 1 and not versions]
    rows = max((index.rows for index in there), default=0)
    if left:
        return not_done(f"{len(left)} of {len(chosen)} indices are as they were, {left[0]} first")
    how = f"in version {', '.join(map(str, versions))}" if versions else "without a change"
    reason = f"{len(chosen)} indices cover all rows that were there, {how}; {rows} rows came since"
    return done(reason, {"versions": versions, "unindexed_rows_after": rows, **change(effect)}, changed=bool(versions))


def index_versions(dataset: Any, before: int, names: Collection[str]) -> list[int]:
    """The versions after one that changed these indices. Lance's own commit takes no tag: whose it was is not told."""
    first = max(before, dataset.version - VERSIONS_READ) + 1
    return [one for one in range(first, dataset.version + 1) if not names_at(dataset, one).isdisjoint(names)]


def names_at(dataset: Any, version: int) -> set[str]:
    """The indices that a version made or changed; none for one that was cleaned meanwhile."""
    try:
        operation = getattr(dataset.read_transaction(version), "operation", None)
    except (OSError, ValueError, TypeError):  # as for a rewrite: see compact.py
        return set()
    return {str(index.name) for index in getattr(operation, "new_indices", ())}


OPTIMIZE_INDICES = kit.ActionDefinition(
    name=Action.register("optimize-indices"),
    settings=(UNINDEXED_ROWS, UNINDEXED_SHARE, MAX_PARTS, MAX_ROWS, MAX_INDEX_BYTES),
    strategy=ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True), cool_down=COOL_DOWN,
    decide=decide, limits=limits, verify=verify,
)  # fmt: skip
