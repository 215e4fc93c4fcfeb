# SPDX-License-Identifier: Apache-2.0
"""What a Lance table needs now, with its numbers: fragments to merge, deleted rows, old versions."""

from lakehand.formats.lance import settings
from lakehand.formats.lance.settings import LanceContext
from lakehand.formats.lance.snapshot import FULL, FragmentPlan
from lakehand.spi import Json, Skip, amount
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds

DRAG = 10  # one large fragment is not rewritten for the sake of others with less than a tenth of its bytes ...
MANY = 10  # ... unless they are this many times the number that is worth it


def decide_compact(context: LanceContext) -> Need | Skip:
    target, deleted_share = settings.target_rows(context), context.values[settings.DELETED_SHARE]
    plan, count = context.snapshot.plan(target, deleted_share), len(context.snapshot.fragments)
    share = f"{deleted_share * 100:.3g} %"
    merged = f"{len(plan.fragments)} of {count} fragments"
    if heavy := [f for f in plan.fragments if f.deleted_share > deleted_share]:
        return Need(
            reason=f"{len(heavy)} of {count} fragments have more than {share} of their rows deleted "
            f"({sum(f.deleted for f in heavy)} rows): {merged} to rewrite, {amount(plan.bytes)}",
            bytes=plan.bytes,
        )
    if why := why_too_few(plan, context.values[settings.MIN_FRAGMENTS]):
        return Skip(reason=f"{merged} can be merged: {why}; none has more than {share} of its rows deleted")
    size = f"{amount(plan.bytes)} to rewrite"
    return Need(reason=f"{merged} are under {target * FULL:.0f} rows and can be merged: {size}", bytes=plan.bytes)


def why_too_few(plan: FragmentPlan, least: int) -> str | None:
    count, largest = len(plan.fragments), max((f.bytes for f in plan.fragments), default=0)
    if count < least:
        return f"{least} make it worth it"
    if count < least * MANY and (plan.bytes - largest) * DRAG < largest:
        return f"{amount(plan.bytes - largest)} are not worth rewriting the {amount(largest)} of the largest"
    return None


def compaction_limits(context: LanceContext) -> dict[str, Json]:
    return {
        "target_rows": settings.target_rows(context),
        "deleted_share": context.values[settings.DELETED_SHARE],
        "max_bytes": context.values[settings.MAX_BYTES],
        "is_indexed": bool(context.snapshot.indices),
        "seen": context.snapshot.totals(),
    }


def decide_clean(context: LanceContext) -> Need | Skip:
    snapshot, max_age = context.snapshot, context.values[settings.MAX_AGE]
    expired = snapshot.expired(context.table.now - max_age, context.values[settings.RETAIN])
    age, least = duration_text(max_age), context.values[settings.MIN_VERSIONS]
    text = f"{len(expired)} of {len(snapshot.history)} versions are older than {age} and held by nothing"
    if len(expired) >= least:
        return Need(reason=text)
    held = f"; {len(snapshot.held)} held by tags and branches" if snapshot.held else ""
    return Skip(reason=f"{text}; {least} make it worth it{held}")


def cleaning_limits(context: LanceContext) -> dict[str, Json]:
    """A request may keep more than the table does, never less."""
    snapshot, retained = context.snapshot, context.values[settings.RETAIN]
    cutoff = context.table.now - context.values[settings.MAX_AGE]
    return {
        "cutoff_ms": milliseconds(cutoff),
        "retain_versions": retained,
        "seen": {"versions": len(snapshot.history), "expired": len(snapshot.expired(cutoff, retained))},
    }
