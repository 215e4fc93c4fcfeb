# SPDX-License-Identifier: Apache-2.0
"""Partition TTL: which partitions were last written so long ago that the table's own setting drops them, and the proof.

Decided here and not by Hudi's strategy, which overlooks log files: it would drop a merge-on-read partition that was
updated yesterday and compacted last year.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lakehand.formats.hudi import plans
from lakehand.formats.hudi.context import HudiContext, HudiEffect
from lakehand.formats.hudi.snapshot import PLANNED, HudiSnapshot
from lakehand.formats.hudi.timeline import TimelineFile, in_order
from lakehand.formats.hudi.unplanned import UnplannedAction
from lakehand.spi import Action, Json, Skip, Verdict, at_fixed_rate, health, kit
from lakehand.spi.kit.conversions import fields, items
from lakehand.spi.kit.factory import CONFIRM
from lakehand.spi.kit.verdicts import done, gone, not_done
from lakehand.storage import Entry

PARTITION_TTL = Action.register("partition-ttl")
LEAST_TTL = timedelta(days=7)
TTL = kit.duration_setting(
    "hudi.partition-ttl.retain",
    "a partition is dropped when it was last written longer ago than this; without it, none is", floor=LEAST_TTL,
    is_retention=True, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MOST_PARTITIONS = kit.count_setting(
    "hudi.partition-ttl.max-partitions", "partitions that one run drops at most, the oldest first", 100, floor=1
)

MOST_SHARE = 0.3  # of all partitions
SHOWN = 3  # partitions in a reason
PARTITIONS = "hoodie.table.partition.fields"
BUSY = timedelta(minutes=1)
MARKER = ".hoodie_partition_metadata"  # in the folder of each partition
_DATA = re.compile(r"\.?(?P<group>[^_.][^_]*)_(?:\d+-\d+-\d+_)?(?P<instant>\d{14}|\d{17})\..+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """One partition and its live files. A file counts as written at its instant or its change, whichever is later.

    Log files of old tables bear the instant of their base file, and instants may be in a writer's own time zone.
    """

    path: str
    last_write: datetime
    files: int
    bytes: int


def partitions_of(snapshot: HudiSnapshot) -> list[PartitionFolder]:
    """Those with live files, the one that was written longest ago first."""
    replacing = snapshot.timeline.completed("replacecommit")
    replaced = {group for file in replacing for group in plans.replaced_groups(snapshot.document(file))}
    found = live_partitions(snapshot.storage.below(snapshot.root), replaced)
    return sorted(found, key=lambda one: (one.last_write, one.path))


def live_partitions(entries: Iterable[Entry], replaced: Collection[str]) -> list[PartitionFolder]:
    folders: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    marked: set[str] = set()
    for entry in entries:
        folder, _, name = entry.name.rpartition("/")
        data = _DATA.fullmatch(name)
        if name == MARKER:
            marked.add(folder)
        elif data and data["group"] not in replaced:
            folders[folder].append((written_at(entry, data["instant"]), entry.size))
    return [folder_of(path, files) for path, files in folders.items() if path and path in marked]


def folder_of(path: str, files: list[tuple[datetime, int]]) -> PartitionFolder:
    return PartitionFolder(
        path=path, last_write=max(at for at, _ in files), files=len(files), bytes=sum(size for _, size in files)
    )


def written_at(entry: Entry, instant: str) -> datetime:
    try:
        by_name = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:  # digits that are not a time
        return entry.modified
    return max(by_name, entry.modified)


def why_never(context: HudiContext) -> str | None:
    if not context.snapshot.properties.get(PARTITIONS):
        return "the table has no partitions to drop"
    if TTL.key not in context.table.config.settings:
        return f"no partition is dropped: {TTL.key} is not set, and has no default"
    return None


def decide(context: HudiContext) -> kit.Need | Skip:
    if why := why_never(context):
        return Skip(reason=why)
    found, oldest = partitions_of(context.snapshot), context.table.now - context.values[TTL]
    expired = [one for one in found if one.last_write < oldest]
    age = f"last written more than {days(context.values[TTL])} days ago"
    if not expired:
        return Skip(reason=f"0 of {len(found)} partitions were {age}")
    if why := why_implausible(context, len(expired), len(found)):
        return Skip(reason=f"{len(expired)} of {len(found)} partitions were {age}; {why}")
    doomed = expired[: context.values[MOST_PARTITIONS]]
    reason = f"{len(expired)} of {len(found)} partitions were {age}; {described(doomed)}"
    return kit.Need(reason=reason, parameters=parameters(context, doomed, oldest))


def why_implausible(context: HudiContext, expired: int, total: int) -> str | None:
    """A table that nobody writes any more expires as a whole, and so does one whose clock was wrong."""
    if context.is_confirmed or context.is_dry_run:
        return None
    if expired < total and expired <= max(1, int(MOST_SHARE * total)):
        return None
    submit = f"lakehand operations submit {context.table.table.id} {PARTITION_TTL}"
    return (
        f"more than {MOST_SHARE:.0%}, or all, are dropped only when confirmed: see {submit} --dry-run, then --confirm"
    )


def wait(context: HudiContext) -> Skip | None:
    """Hudi drops no partition that a pending plan names: its files would be replaced twice."""
    if plan := next((plan for action in PLANNED for plan in context.snapshot.pending_of(action)), None):
        return Skip(reason=f"{plan.action} plan {plan.instant} is pending and goes first", look_again=BUSY)
    return None


def described(doomed: list[PartitionFolder]) -> str:
    files, size = sum(one.files for one in doomed), sum(one.bytes for one in doomed)
    named = ", ".join(f"{one.path} ({one.last_write:%Y-%m-%d})" for one in doomed[:SHOWN])
    more = f" and {len(doomed) - SHOWN} more" if len(doomed) > SHOWN else ""
    return f"{len(doomed)} are dropped, {files} files, {size} bytes: {named}{more}"


def parameters(context: HudiContext, doomed: list[PartitionFolder], oldest: datetime) -> dict[str, Json]:
    """The partitions of the first admission stay: a later attempt announces no others."""
    names: Json = [one.path for one in doomed]
    return {
        "partitions": context.first("partitions", names),
        "older_than": context.first("older_than", int(oldest.timestamp() * 1000)),
        "seen": context.first("seen", context.snapshot.timeline.newest_write),
        CONFIRM: context.is_confirmed,
    }


def verify(effect: HudiEffect) -> Verdict:
    """The replacecommit that bears the operation's tag names what it has replaced: the announced partitions alone."""
    announced, kept = set(map(str, items(effect.parameters.get("partitions")))), fields(effect.result.get("kept"))
    commit = find_commit(effect)
    if commit is None:
        if kept and announced <= set(kept):
            return gone(f"all {len(kept)} partitions were written meanwhile: {next(iter(kept.values()))}")
        return not_done("no replacecommit of this operation is on the timeline")
    file, document = commit
    dropped = set(document.get("partitionToReplaceFileIds") or {})
    if dropped - announced:
        wrong = ", ".join(sorted(dropped - announced)[:SHOWN])
        return done(f"{file.name} dropped partitions that were never announced ({wrong}): check the table")
    groups = len(plans.replaced_groups(document))
    numbers: dict[str, Json] = {
        "partitions_dropped": len(dropped), "completed": [file.name], health.FILES_REMOVED: groups,
        "file_groups_replaced": groups,
    }  # fmt: skip
    stayed = f"; {len(announced - dropped)} of {len(announced)} stay: written meanwhile" if announced - dropped else ""
    return done(f"{len(dropped)} partitions are dropped by {file.name}: {shown(dropped)}{stayed}", numbers)


def find_commit(effect: HudiEffect) -> tuple[TimelineFile, plans.Document] | None:
    tag, seen = effect.parameters.get(kit.TAG), in_order(str(effect.parameters.get("seen") or ""))
    for file in reversed(effect.snapshot.timeline.completed("replacecommit")):
        if in_order(file.instant) <= seen:
            break
        document = effect.snapshot.document(file)
        if tag and (document.get("extraMetadata") or {}).get(kit.TAG) == tag:
            return file, document
    return None


def shown(names: set[str]) -> str:
    return ", ".join(sorted(names)[:SHOWN]) + (" ..." if len(names) > SHOWN else "")


def days(span: timedelta) -> int:
    return span // timedelta(days=1)


# It lists the table's folders, and partitions expire by time.
ACTION = UnplannedAction(
    name=PARTITION_TTL, settings=(TTL, MOST_PARTITIONS), strategy=at_fixed_rate(timedelta(days=1)), decide=decide,
    not_now=wait, verify=verify, has_dry_run=True,
)  # fmt: skip
