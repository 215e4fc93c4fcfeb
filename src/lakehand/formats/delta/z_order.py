# SPDX-License-Identifier: Apache-2.0
"""Orders the rows of a table by some columns, where enough of a partition was written since the last time.

Delta does not record which files are ordered. Those of one z-order were written within a time window that its commit
shows. Windows are kept in the table's state; without a state they are read from the log again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakehand.formats.delta.context import GB, DeltaContext, DeltaEffect
from lakehand.formats.delta.files import LiveFile, Partition
from lakehand.formats.delta.log import Commit
from lakehand.formats.delta.rewrites import (
    ON_COMMIT,
    choose_partitions,
    leaves_room,
    rewrite,
    target_bytes,
    target_setting,
    verify_rewrite,
)
from lakehand.formats.delta.snapshot import DeltaSnapshot, name_partitions
from lakehand.spi import Action, Finding, Json, Skip, StateKey, Verdict, amount, kit
from lakehand.spi.kit import Need
from lakehand.spi.kit.conversions import items

COMMITS_READ = 500  # commits, newest first, for a z-order that we do not remember
MOST_WINDOWS = 100
TARGET_BYTES = target_setting("z-order")
COLUMNS = kit.columns_setting(
    "delta.z-order.columns", "columns to order by. Without them nothing is ordered", set_by=kit.SetBy.REQUEST
)
UNCLUSTERED = kit.share_setting("delta.z-order.unclustered-share", "the share of a partition that must be new", 0.2)
MIN_BYTES = kit.bytes_setting(
    "delta.z-order.min-bytes", "smaller partitions are left alone: ordering two files is of no use", 256 * 1024**2
)
MAX_BYTES = kit.bytes_setting("delta.z-order.max-bytes", "as for optimize", 100 * GB)


class Window(NamedTuple):
    version: int
    first: int  # milliseconds since 1970
    last: int

    def holds(self, file: LiveFile) -> bool:
        return self.first <= file.modified <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The z-orders of a table by some columns."""

    columns: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()  # newest first

    @property
    def newest(self) -> int:
        return max((window.version for window in self.windows), default=-1)

    def hold(self, file: LiveFile) -> bool:
        return any(window.holds(file) for window in self.windows)

    def with_windows(self, more: Iterable[Window], alive: Iterable[LiveFile]) -> "Clusters":
        """With new windows, and without those of which no file is left."""
        by_version = {window.version: window for window in (*self.windows, *more)}
        files = list(alive)
        kept = sorted((w for w in by_version.values() if any(w.holds(file) for file in files)), reverse=True)
        return Clusters(columns=self.columns, windows=tuple(kept[:MOST_WINDOWS]))


def decode(text: str) -> Clusters:
    document = json.loads(text)
    return Clusters(columns=tuple(document["columns"]), windows=tuple(Window(*one) for one in document["windows"]))


CLUSTERED = StateKey(
    name="clustered", default=Clusters(), decode=decode,
    encode=lambda known: json.dumps({"columns": known.columns, "windows": known.windows}),
)  # fmt: skip


def clusters_of(snapshot: DeltaSnapshot, columns: Sequence[str], known: Clusters) -> Clusters:
    """The known z-orders, and those in the log since then."""
    wanted = normalise(columns)
    start = known if known.columns == wanted and known.newest <= snapshot.version else Clusters(columns=wanted)
    found = snapshot.infos_backwards(start.newest, COMMITS_READ)
    more = [one for version, commit, info in found if (one := window_of(version, commit, info, wanted))]
    return start.with_windows(more, snapshot.files.values())


def window_of(version: int, commit: Commit, info: Mapping[str, Any], columns: tuple[str, ...]) -> Window | None:
    """The window of a z-order by just these columns; None for every other commit."""
    if info.get("operation") != "OPTIMIZE" or ordered_by(info) != columns:
        return None
    written = [action["add"].get("modificationTime") or 0 for action in commit if "add" in action]
    return Window(version=version, first=min(written), last=max(written)) if written else None


def ordered_by(info: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        columns = json.loads((info.get("operationParameters") or {}).get("zOrderBy") or "[]")
    except (TypeError, ValueError, RecursionError):
        return ()
    return normalise(str(column) for column in columns)


def normalise(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(column.strip("`").lower() for column in columns)


@dataclass(slots=True, kw_only=True)
class PartitionShare:
    """How much of a partition is in order."""

    partition: Partition
    files: int = 0
    size: int = 0
    loose_files: int = 0
    loose_size: int = 0


def decide(context: DeltaContext) -> Need | Skip:
    columns, snapshot = context.values[COLUMNS], context.snapshot
    if why := why_impossible(snapshot, columns):
        return Skip(reason=why)
    if context.by_person:
        return order(context, f"asked for; {amount(snapshot.size)} to rewrite", None, snapshot.size)
    least = context.values[MIN_BYTES]
    if snapshot.size < least:
        return Skip(reason=f"{amount(snapshot.size)} in all; {amount(least)} in a partition would be worth it")
    clusters = clusters_of(snapshot, columns, context.table.state(CLUSTERED))
    return decide_by_share(context, shares_of(snapshot, clusters), least)


def decide_by_share(context: DeltaContext, shares: Sequence[PartitionShare], least: int) -> Need | Skip:
    wanted, columns = context.values[UNCLUSTERED], context.values[COLUMNS]
    loose, files = sum(one.loose_files for one in shares), sum(one.files for one in shares)
    size, total = sum(one.loose_size for one in shares), sum(one.size for one in shares)
    sizes = f"{amount(size)} of {amount(total)}"
    text = f"{loose} of {files} files with {sizes} are not in the order of {', '.join(columns)}"
    due = [one for one in shares if one.size >= least and one.loose_size and one.loose_size >= wanted * one.size]
    if not due:
        where = f"no partition of at least {amount(least)} has" if len(shares) > 1 else "not"
        return Skip(reason=f"{text}: {where} {wanted:.0%} of it")
    by_loose_size = {one.partition: one.size for one in sorted(due, key=lambda one: -one.loose_size)}
    chosen = choose_partitions(context, by_loose_size, context.values[MAX_BYTES])
    where = f" in {len(chosen.sizes)} of {len(shares)} partitions" if len(shares) > 1 else ""
    rewritten = sum(chosen.sizes.values())
    reason = f"{text}: {amount(rewritten)} to rewrite{where}{chosen.text}"
    return order(context, reason, name_partitions(context.snapshot, chosen.sizes), rewritten)


def order(context: DeltaContext, reason: str, partitions: Sequence[Json] | None, size: int) -> Need:
    columns, target = list(context.values[COLUMNS]), target_bytes(context, TARGET_BYTES)
    return rewrite(context, reason, target, target, partitions, size=size, columns=columns)


def why_impossible(snapshot: DeltaSnapshot, columns: Sequence[str]) -> str | None:
    if not columns:
        return "delta.z-order.columns names no columns"
    if snapshot.clustering_columns:
        return f"the table has liquid clustering by {', '.join(snapshot.clustering_columns)}: optimize keeps it"
    if not snapshot.files:
        return "the table has no files"
    known = {str(column.get("name")).lower() for column in snapshot.schema}
    missing = [column for column in columns if column.split(".")[0].lower() not in known]
    if missing:
        return f"the columns to order by include {', '.join(missing)}, which the table does not have"
    ordered = {column.lower() for column in snapshot.partition_columns}
    if by_partition := [column for column in columns if column.lower() in ordered]:
        return f"{', '.join(by_partition)} is a partition column: files cannot be ordered by it"
    return None


def shares_of(snapshot: DeltaSnapshot, clusters: Clusters) -> list[PartitionShare]:
    shares: dict[Partition, PartitionShare] = {}
    for file in snapshot.files.values():
        share = shares.setdefault(file.partition, PartitionShare(partition=file.partition))
        is_loose = not clusters.hold(file)
        share.files += 1
        share.size += file.size
        share.loose_files += is_loose
        share.loose_size += file.size if is_loose else 0
    return list(shares.values())


def verify(effect: DeltaEffect) -> Verdict:
    """Remember what was ordered: the log forgets it after a month."""
    verdict = verify_rewrite(effect)
    if verdict.finding is Finding.DONE:
        columns = [str(name) for name in items(effect.parameters.get("columns"))]
        effect.table.update_state(CLUSTERED, lambda known: clusters_of(effect.snapshot, columns, known))
    return verdict


Z_ORDER = kit.ActionDefinition(
    name=Action.register("z-order"), strategy=ON_COMMIT, decide=decide, not_now=leaves_room, verify=verify,
    settings=(TARGET_BYTES, COLUMNS, UNCLUSTERED, MIN_BYTES, MAX_BYTES),
)  # fmt: skip
