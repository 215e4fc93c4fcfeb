# SPDX-License-Identifier: Apache-2.0
"""What a Lance table needs now, with its numbers: fragments to merge, deleted rows, old versions."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from lakehand.formats.lance import settings
from lakehand.formats.lance.fragments import FULL, FragmentPlan
from lakehand.formats.lance.settings import CompactionGoals, LanceContext
from lakehand.formats.lance.snapshot import CLEAN_VERSIONS, COMPACT, LanceSnapshot
from lakehand.spi import Action, Json, Skip, amount
from lakehand.spi.kit import Need

DRAG = 10  # one large fragment is not rewritten for the sake of others with less than a tenth of its bytes ...
MANY = 10  # ... unless they are this many times the number that is worth it


def decide(context: LanceContext) -> Need | Skip:
    need = DECISIONS[context.action](context)
    return Need(reason=f"asked for; {need.reason}") if context.by_person and isinstance(need, Skip) else need


def decide_compact(context: LanceContext) -> Need | Skip:
    snapshot, goals = context.snapshot, settings.goals(context.values, context.snapshot)
    plan = snapshot.plan(goals.target_rows, goals.deleted_share)
    share = f"{goals.deleted_share * 100:.3g} %"
    heavy = [f for f in plan.fragments if f.deleted_share > goals.deleted_share]
    merged = f"{len(plan.fragments)} of {len(snapshot.fragments)} fragments"
    if heavy:
        rows = sum(f.deleted for f in heavy)
        return Need(
            reason=f"{len(heavy)} of {len(snapshot.fragments)} fragments have more than {share} of their rows deleted "
            f"({rows} rows): {merged} to rewrite, {amount(plan.bytes)}"
        )
    if why := why_too_few(plan, goals):
        return Skip(reason=f"{merged} can be merged: {why}; none has more than {share} of its rows deleted")
    size = f"{amount(plan.bytes)} to rewrite"
    return Need(reason=f"{merged} are under {goals.target_rows * FULL:.0f} rows and can be merged: {size}")


def why_too_few(plan: FragmentPlan, goals: CompactionGoals) -> str | None:
    count, largest = len(plan.fragments), max((f.bytes for f in plan.fragments), default=0)
    if count < goals.min_fragments:
        return f"{goals.min_fragments} make it worth it"
    if count < goals.min_fragments * MANY and (plan.bytes - largest) * DRAG < largest:
        return f"{amount(plan.bytes - largest)} are not worth rewriting the {amount(largest)} of the largest"
    return None


def decide_clean(context: LanceContext) -> Need | Skip:
    snapshot, max_age = context.snapshot, context.values[settings.MAX_AGE]
    expired = snapshot.expired(context.table.now - max_age, context.values[settings.RETAIN])
    told = f"{len(expired)} of {len(snapshot.history)} versions are older than {days(max_age)} and held by nothing"
    if len(expired) >= (needed := context.values[settings.MIN_VERSIONS]):
        return Need(reason=told)
    why = f"{told}; {needed} make it worth it"
    return Skip(reason=f"{why}; {len(snapshot.held)} held by tags and branches" if snapshot.held else why)


def days(span: timedelta) -> str:
    return f"{span.total_seconds() / 86400:.3g} days"


def parameters(context: LanceContext) -> dict[str, Json]:
    snapshot = context.snapshot
    limits = compaction_limits(context) if context.action == COMPACT else cleaning_limits(context)
    return {"before": snapshot.version, "identity": snapshot.identity, **limits}


def compaction_limits(context: LanceContext) -> dict[str, Json]:
    goals = settings.goals(context.values, context.snapshot)
    return {
        "target_rows": goals.target_rows,
        "deleted_share": goals.deleted_share,
        "max_bytes": goals.max_bytes,
        "is_indexed": bool(context.snapshot.indices),
        "seen": state_of(context.snapshot),
    }


def cleaning_limits(context: LanceContext) -> dict[str, Json]:
    """A request may keep more than the table does, never less."""
    snapshot, retained = context.snapshot, context.values[settings.RETAIN]
    cutoff = context.table.now - context.values[settings.MAX_AGE]
    return {
        "cutoff_ms": milliseconds(cutoff),
        "retain_versions": retained,
        "seen": {"versions": len(snapshot.history), "expired": len(snapshot.expired(cutoff, retained))},
    }


def state_of(snapshot: LanceSnapshot) -> dict[str, Json]:
    """What a rewrite changes."""
    return {
        "fragments": len(snapshot.fragments),
        "files": sum(len(f.sizes) for f in snapshot.fragments),
        "bytes": snapshot.bytes,
        "deleted_rows": snapshot.deleted_rows,
        "rows": snapshot.physical_rows - snapshot.deleted_rows,
    }


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


DECISIONS: Mapping[Action, Callable[[LanceContext], Need | Skip]] = {
    COMPACT: decide_compact,
    CLEAN_VERSIONS: decide_clean,
}
