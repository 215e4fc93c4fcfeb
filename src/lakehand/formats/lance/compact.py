# SPDX-License-Identifier: Apache-2.0
"""Merges small fragments, and rewrites those with many deleted rows."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lakehand.formats.lance import snapshot
from lakehand.formats.lance.context import VERSIONS_READ, LanceContext, LanceEffect, change, cool_down, why_gone
from lakehand.formats.lance.snapshot import FULL, FragmentPlan
from lakehand.spi import Action, Json, ProcessTriggerStrategy, Skip, Verdict, amount, kit
from lakehand.spi.kit import PAIR, Need
from lakehand.spi.kit.conversions import whole_number
from lakehand.spi.kit.verdicts import done, gone, not_done

TAG = "lakehand-operation"  # a property of the transaction; the job writes the same
DRAG = 10  # one large fragment is not rewritten for the sake of others with less than a tenth of its bytes ...
MANY = 10  # ... unless they are this many times the number that is worth it
TARGET_ROWS = kit.count_setting(
    "lance.compact.target-rows", "rows of a full fragment", floor=1, set_by=kit.SetBy.REQUEST,
    default_text=f"the table's `{snapshot.OWN_TARGET}`, else {snapshot.TARGET_ROWS}",
)  # fmt: skip
TARGET_BYTES = kit.bytes_setting(
    "lance.compact.target-bytes", "wide rows make the target smaller, so that a fragment has about this size",
    snapshot.TARGET_BYTES, floor=1,
)  # fmt: skip
MIN_FRAGMENTS = kit.count_setting(
    "lance.compact.min-fragments", "fragments to merge that make it worth it", 10, floor=2
)
TRIGGER = kit.trigger_settings("lance.compact", "the oldest fragment that could be merged with another")
DELETED_SHARE = kit.share_setting(
    "lance.compact.deleted-rows-share", "a fragment with a larger share of deleted rows is rewritten, even alone",
    snapshot.DELETED_SHARE, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MAX_BYTES = kit.bytes_setting("lance.compact.max-bytes", "bytes that one run reads", 64 * 1024**3, floor=1)
COOL_DOWN = cool_down("compact")


def decide(context: LanceContext) -> Need | Skip:
    target, deleted_share = target_rows(context), context.values[DELETED_SHARE]
    plan, count = context.snapshot.plan(target, deleted_share), len(context.snapshot.fragments)
    share = f"{deleted_share * 100:.3g} %"
    merged = f"{len(plan.fragments)} of {count} fragments"
    if heavy := [f for f in plan.fragments if f.deleted_share > deleted_share]:
        return Need(
            reason=f"{len(heavy)} of {count} fragments have more than {share} of their rows deleted "
            f"({sum(f.deleted for f in heavy)} rows): {merged} to rewrite, {amount(plan.bytes)}",
            bytes=plan.bytes,
        )
    trigger, least = context.trigger(TRIGGER), context.values[MIN_FRAGMENTS]
    waiting = kit.Backlog(not why_too_few(plan, least), since=since(context, plan) if trigger.has_age else None)
    if not trigger.is_due(waiting):
        why = why_too_few(plan, trigger.least(least, PAIR)) or "not yet"
        reason = f"{merged} can be merged: {why}; none has more than {share} of its rows deleted"
        return trigger.skip(reason, [waiting])
    size = f"{amount(plan.bytes)} to rewrite{trigger.why([waiting])}"
    return Need(reason=f"{merged} are under {target * FULL:.0f} rows and can be merged: {size}", bytes=plan.bytes)


def since(context: LanceContext, plan: FragmentPlan) -> datetime | None:
    """By the times of the data files, in one more listing: no manifest says when a fragment was written."""
    return None if why_too_few(plan, PAIR) else kit.mergeable_since(context.snapshot.written_at(plan.fragments))


def target_rows(context: LanceContext) -> int:
    """The most specific wins: the request, the table or plugin, the table's own manifest, the default."""
    values = context.values
    if values.is_requested(TARGET_ROWS):
        return values[TARGET_ROWS]
    own = context.snapshot.own_target_rows or ""
    rows = values.get(TARGET_ROWS) or (int(own) if own.isdigit() else snapshot.TARGET_ROWS)
    return context.snapshot.target_rows(max(rows, 1), values[TARGET_BYTES])


def why_too_few(plan: FragmentPlan, least: int) -> str | None:
    count, largest = len(plan.fragments), max((f.bytes for f in plan.fragments), default=0)
    if count < least:
        return f"{least} make it worth it"
    if count < least * MANY and (plan.bytes - largest) * DRAG < largest:
        return f"{amount(plan.bytes - largest)} are not worth rewriting the {amount(largest)} of the largest"
    return None


def limits(context: LanceContext) -> dict[str, Json]:
    return {
        "target_rows": target_rows(context),
        "deleted_share": context.values[DELETED_SHARE],
        "max_bytes": context.values[MAX_BYTES],
        "is_indexed": bool(context.snapshot.indices),
        "seen": context.snapshot.totals(),
    }


class Rewrite(NamedTuple):
    version: int
    tag: str = ""
    removed: int | None = None  # fragments; None: Lance's library cannot read this transaction
    added: int | None = None


def rewrites_since(dataset: Any, before: int) -> Iterator[Rewrite]:
    """All rewrites after a version, oldest first."""
    versions = range(max(before, dataset.version - VERSIONS_READ) + 1, dataset.version + 1)
    yield from (rewrite for version in versions if (rewrite := rewrite_at(dataset, version)) is not None)


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


def verify(effect: LanceEffect) -> Verdict:
    if why := why_gone(effect):
        return gone(why)
    snapshot, before, tag = (
        effect.snapshot,
        whole_number(effect.parameters.get(kit.BEFORE)),
        effect.parameters.get(kit.TAG),
    )
    found = list(rewrites_since(snapshot.dataset, before))
    ours = [one for one in found if one.tag and one.tag == tag]
    ours = ours or [one for one in found if one.version == effect.result.get("version")]
    # A rewrite that remapped indices carries no tag: without a result nobody knows whose it was.
    nameless = [one for one in found if not one.tag] if effect.parameters.get("is_indexed") else []
    if commits := ours or nameless:
        whose = "" if ours else " by a rewrite whose author Lance does not record"
        return rewrite_verdict(effect, commits[-1], whose)
    if effect.result.get("tasks") == 0:
        reason = f"nothing to do: Lance planned no rewrite of version {effect.result.get('read_version')}"
        return done(reason, change(effect), changed=False)
    others = f"; {len(found)} rewrites of others since" if found else ""
    return not_done(f"no version from {before + 1} to {snapshot.version} is a rewrite of ours{others}")


def rewrite_verdict(effect: LanceEffect, rewrite: Rewrite, whose: str) -> Verdict:
    merged = "fragments were merged"
    counts = f"{rewrite.removed} fragments became {rewrite.added}" if rewrite.removed is not None else merged
    reason = f"{counts} in version {rewrite.version}{whose}: {len(effect.snapshot.fragments)} fragments now"
    # Without a result, fragments: nearly always one file each.
    removed = kit.work_numbers(files_removed=effect.result.get("files_removed", rewrite.removed))
    return done(reason, {"version": rewrite.version, **change(effect), **removed})


COMPACT = kit.ActionDefinition(
    name=Action.register("compact"), strategy=ProcessTriggerStrategy(interval=timedelta(days=1), on_new_snapshot=True),
    settings=(TARGET_ROWS, TARGET_BYTES, MIN_FRAGMENTS, *TRIGGER, DELETED_SHARE, MAX_BYTES),
    cool_down=COOL_DOWN, decide=decide, limits=limits, verify=verify,
)  # fmt: skip
