# SPDX-License-Identifier: Apache-2.0
"""Whether an index is worth optimising: rows that it does not cover, and parts that each search has to visit."""

from dataclasses import dataclass
from typing import Any

from lakehand.formats.lance import settings
from lakehand.formats.lance.settings import LanceContext
from lakehand.formats.lance.snapshot import IndexCoverage, LanceSnapshot
from lakehand.spi import Json, Skip, amount
from lakehand.spi.kit import Need, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """What is done to one index: new rows are added, and all of its parts merged into one if they are too many."""

    index: IndexCoverage
    is_merge: bool
    refused: str = ""  # why it is not done although it is worth it

    def as_parameter(self) -> dict[str, Json]:
        return {"name": self.index.name, "merge": self.is_merge, "rows": self.index.rows, "parts": self.index.parts}


def decide_optimize(context: LanceContext) -> Need | Skip:
    found, plans = context.snapshot.coverage, make_plans(context)
    if not found:
        return Skip(reason="the table has 0 indices")
    refused = "".join(f"; {plan.index.name} is left: {plan.refused}" for plan in plans if plan.refused)
    if chosen := [plan.index for plan in plans if not plan.refused]:
        each = "; ".join(describe(index, context.snapshot) for index in chosen)
        return Need(reason=f"{len(chosen)} of {len(found)} indices are worth optimising: {each}{refused}")
    worst = max(found, key=lambda index: (index.rows, index.parts))
    rows, share = context.values[settings.UNINDEXED_ROWS], context.values[settings.UNINDEXED_SHARE]
    limits = f"worth it from {rows} rows, {share:.0%} or more than {context.values[settings.MAX_PARTS]} parts"
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
    is_merge = index.parts > values[settings.MAX_PARTS]
    least = 1 if context.by_person else least_rows(context)
    if not index.is_known or (index.rows < least and not is_merge):
        return None
    if index.rows > (most := values[settings.MAX_ROWS]):
        return IndexPlan(index=index, is_merge=is_merge, refused=f"{index.rows} rows are more than {most}")
    is_light = index.bytes <= values[settings.MAX_INDEX_BYTES]
    if not is_light and not (index.is_vector and index.rows >= least):
        return IndexPlan(index=index, is_merge=is_merge, refused=too_large(index, values))
    return IndexPlan(index=index, is_merge=is_merge and is_light)  # without a merge, new vectors are one more part


def least_rows(context: LanceContext) -> int:
    share = context.values[settings.UNINDEXED_SHARE] * context.snapshot.rows
    return max(min(context.values[settings.UNINDEXED_ROWS], int(share)), 1)


def too_large(index: IndexCoverage, values: Values) -> str:
    return f"{amount(index.bytes)} to rewrite are more than {amount(values[settings.MAX_INDEX_BYTES])}"


def optimizing_limits(context: LanceContext) -> dict[str, Json]:
    chosen: list[Any] = [plan.as_parameter() for plan in make_plans(context) if not plan.refused]
    return {
        "indices": chosen,
        # Fragments are numbered as they are made: later ones are not promised.
        "newest_fragment": max((fragment.id for fragment in context.snapshot.fragments), default=-1),
        "seen": context.snapshot.totals(),
    }
