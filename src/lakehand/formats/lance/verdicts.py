# SPDX-License-Identifier: Apache-2.0
"""What the table says about a process: a rewrite in its history, which carries our tag, or versions that are gone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from lakehand.formats.lance.decisions import state_of
from lakehand.formats.lance.snapshot import COMPACT, LanceSnapshot
from lakehand.spi import Finding, Json, TableProcess, Verdict

TAG = "lakehand-operation"  # a property of the transaction; the job writes the same
VERSIONS_READ = 10_000  # versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    version: int
    tag: str = ""
    removed: int | None = None  # fragments; None: Lance's library cannot read this transaction
    added: int | None = None


def rewrites_since(dataset: Any, before: int) -> Iterator[Rewrite]:
    """All rewrites after a version, oldest first."""
    for version in range(max(before, dataset.version - VERSIONS_READ) + 1, dataset.version + 1):
        rewrite = rewrite_at(dataset, version)
        if rewrite is not None:
            yield rewrite


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


def verify(snapshot: LanceSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    before = whole(process.parameters.get("before"))
    if snapshot.version < before:
        reason = f"version {before} was seen and the latest is {snapshot.version}: the table was made anew"
        return Verdict(finding=Finding.GONE, reason=reason)
    if process.action == COMPACT:
        return about_rewrite(snapshot, process, result, before)
    return about_cleaning(snapshot, process, result)


def about_rewrite(snapshot: LanceSnapshot, process: TableProcess, result: Mapping[str, Json], before: int) -> Verdict:
    found = list(rewrites_since(snapshot.dataset, before))
    ours = [one for one in found if one.tag == process.parameters.get("operation_tag") and one.tag]
    told = [one for one in found if one.version == result.get("version")]
    # A rewrite that remapped indices carries no tag: after a loss nobody can tell whose it was.
    nameless = [one for one in found if not one.tag] if process.parameters.get("is_indexed") else []
    if done := ours or told or nameless:
        whose = "" if ours or told else " by a rewrite whose author Lance does not tell"
        return rewrite_verdict(snapshot, process, done[-1], whose)
    if result.get("tasks") == 0:
        reason = f"nothing to do: Lance planned no rewrite of version {result.get('read_version')}"
        return Verdict(finding=Finding.DONE, reason=reason, numbers={"changed": False, **change(snapshot, process)})
    others = f"; {len(found)} rewrites of others since" if found else ""
    reason = f"no version from {before + 1} to {snapshot.version} is a rewrite of ours{others}"
    return Verdict(finding=Finding.NOT_DONE, reason=reason)


def rewrite_verdict(snapshot: LanceSnapshot, process: TableProcess, done: Rewrite, whose: str) -> Verdict:
    numbers = change(snapshot, process)
    counts = f"{done.removed} fragments became {done.added}" if done.removed is not None else "fragments were merged"
    reason = f"{counts} in version {done.version}{whose}: {len(snapshot.fragments)} fragments now"
    return Verdict(finding=Finding.DONE, reason=reason, numbers={"changed": True, "version": done.version, **numbers})


def change(snapshot: LanceSnapshot, process: TableProcess) -> dict[str, Json]:
    seen = process.parameters.get("seen")
    before = seen if isinstance(seen, Mapping) else {}
    return {
        **{f"{key}_before": value for key, value in before.items()},
        **{f"{key}_after": value for key, value in state_of(snapshot).items()},
    }


def about_cleaning(snapshot: LanceSnapshot, process: TableProcess, result: Mapping[str, Json]) -> Verdict:
    cutoff = datetime.fromtimestamp(whole(process.parameters.get("cutoff_ms")) / 1000, timezone.utc)
    left = snapshot.expired(cutoff, whole(process.parameters.get("retain_versions")))
    seen = process.parameters.get("seen")
    before = whole(seen.get("expired")) if isinstance(seen, Mapping) else 0
    removed = whole(result.get("versions_removed"))
    numbers: dict[str, Json] = {
        "changed": removed > 0 or whole(result.get("files_removed")) > 0 or before > len(left),
        "expired_before": before,
        "expired_after": len(left),
        "versions_after": len(snapshot.history),
    }
    # Lance goes by the time in the manifest, we by the file's: its word counts where the two differ.
    if not left or result.get("expired_after") == 0:
        reason = (
            f"{removed or before} versions older than {cutoff:%Y-%m-%d %H:%M} UTC are gone; {describe_kept(snapshot)}"
        )
        return Verdict(finding=Finding.DONE, reason=reason, numbers=numbers)
    reason = f"{len(left)} of {before} versions older than {cutoff:%Y-%m-%d %H:%M} UTC are still there"
    return Verdict(finding=Finding.NOT_DONE, reason=reason, numbers=numbers)


def describe_kept(snapshot: LanceSnapshot) -> str:
    held = f", {len(snapshot.held)} held by tags and branches" if snapshot.held else ""
    return f"{len(snapshot.history)} are kept{held}"


def whole(value: Json) -> int:
    return value if isinstance(value, int) else 0
