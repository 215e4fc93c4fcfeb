# SPDX-License-Identifier: Apache-2.0
"""What a table says about a process: a rewrite with our tag, versions that are gone, rows in indices; or failures."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from lakehand.formats.lance.snapshot import LanceSnapshot
from lakehand.spi import Json, Remedy, Verdict, kit
from lakehand.spi.kit.conversions import fields, items, moment_of, whole_number
from lakehand.spi.kit.verdicts import done, gone, not_done

TAG = "lakehand-operation"  # a property of the transaction; the job writes the same
VERSIONS_READ = 10_000  # versions
LanceEffect = kit.Effect[LanceSnapshot]
RULES = (
    kit.rule(r"LiveFileInDanger", "live-file", Remedy.FATAL, advice="nothing was deleted: report this table to us"),
    kit.rule(
        r"ConditionsIgnored", "conditions-ignored", Remedy.FATAL,
        advice="use a store that keeps If-None-Match, or let the table's writers compact it",
    ),
    kit.rule(
        r"commit conflict|CommitConflictError|incompatible transaction|preempted by|too many concurrent writers",
        "write-conflict", delay=timedelta(minutes=1), advice="a writer committed first; the next attempt plans anew",
    ),
    kit.rule(
        r"No module named '?lance|ModuleNotFoundError", "library-missing", Remedy.FATAL,
        advice="pylance must be installed where the driver and its executors run",
    ),
    kit.table_missing(r"Dataset at path .{0,1024} was not found|TableNotFound", "Lance"),
    kit.rule(r"Not found|NoSuchFile|FileNotFound", "file-missing", advice="a file went while it was read"),
)  # fmt: skip


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


def why_gone(effect: LanceEffect) -> str | None:
    before, version = whole_number(effect.parameters.get(kit.BEFORE)), effect.snapshot.version
    return (
        f"version {before} was seen and the latest is {version}: the table was made anew" if version < before else None
    )


def verify_rewrite(effect: LanceEffect) -> Verdict:
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


def change(effect: LanceEffect) -> dict[str, Json]:
    return {
        **{f"{key}_before": value for key, value in fields(effect.parameters.get("seen")).items()},
        **{f"{key}_after": value for key, value in effect.snapshot.totals().items()},
    }


def verify_cleaning(effect: LanceEffect) -> Verdict:
    if why := why_gone(effect):
        return gone(why)
    snapshot, parameters, result = effect.snapshot, effect.parameters, effect.result
    cutoff = moment_of(whole_number(parameters.get("cutoff_ms")))
    left = len(snapshot.expired(cutoff, whole_number(parameters.get("retain_versions"))))
    before = whole_number(fields(parameters.get("seen")).get("expired"))
    removed = whole_number(result.get("versions_removed"))
    numbers: dict[str, Json] = {
        "changed": removed > 0 or whole_number(result.get("files_removed")) > 0 or before > left,
        "expired_before": before,
        "expired_after": left,
        "versions_after": len(snapshot.history),
        **kit.work_numbers(files_removed=result.get("files_removed")),
    }
    age = f"versions older than {cutoff:%Y-%m-%d %H:%M} UTC"
    # Lance goes by the time in the manifest, we by the file's: its result counts where the two differ.
    if left and result.get("expired_after") != 0:
        return not_done(f"{left} of {before} {age} are still there", numbers)
    held = f", {len(snapshot.held)} held by tags and branches" if snapshot.held else ""
    return done(f"{removed or before} {age} are gone; {len(snapshot.history)} are kept{held}", numbers)


def verify_optimizing(effect: LanceEffect) -> Verdict:
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
    except (OSError, ValueError, TypeError):  # as in rewrite_at
        return set()
    return {str(index.name) for index in getattr(operation, "new_indices", ())}
