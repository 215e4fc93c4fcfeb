# SPDX-License-Identifier: Apache-2.0
"""Deletes files that the log removed and that are past their retention; seldom, also those that it never named."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakehand.formats.delta.context import DeltaContext, DeltaEffect, is_older, numbers
from lakehand.formats.delta.files import removed_file
from lakehand.formats.delta.log import Commit, committed_at, info_of
from lakehand.formats.delta.snapshot import RETENTION_FLOOR, DeltaSnapshot, tagged, version_before
from lakehand.spi import Action, Json, Skip, StateKey, Verdict, amount, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds, moment_of
from lakehand.spi.kit.verdicts import done, not_done

COMMITS_READ = 500  # commits; of more than that a sample is read
LAST = "_last_vacuum_info"
LAST_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_ABSOLUTE = re.compile(rf"/|{_SCHEME.pattern}")
START, END = "VACUUM START", "VACUUM END"
LITE, FULL, AUTO = "lite", "full", "auto"
MODE = kit.choice_setting(
    "delta.vacuum.mode",
    "`lite`: by the log alone. `full`: by listing the folder. `auto`: lite where the log reaches back far enough",
    AUTO, LITE, FULL, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MIN_FILES = kit.count_setting(
    "delta.vacuum.min-files", "so many removed files must be past their retention", 1, floor=1
)
RETAIN = kit.retention_setting(
    "delta.vacuum.retain", "keep removed files at least this long; the table's own retention counts when it is longer",
    RETENTION_FLOOR, RETENTION_FLOOR, replaces=("delta.vacuum.retain-hours",),
    floor_replaces=("delta.vacuum.floor-hours",),
)  # fmt: skip
FULL_INTERVAL = kit.duration_setting(
    "delta.vacuum.full-interval",
    "a full vacuum so often, for files that no commit ever named; the first so long after registration; 0s: never",
    timedelta(days=30), replaces=("delta.vacuum.full-interval-days",),
)  # fmt: skip


class PastVacuum(NamedTuple):
    """A vacuum that came to its end, in milliseconds since 1970."""

    at: int = 0
    cutoff: int = 0  # files that were removed earlier are gone


class RemovedFiles(NamedTuple):
    """Files that the log removed before a moment, and that no vacuum has deleted since."""

    files: int
    size: int
    outside: int  # more of them by absolute paths outside of the table, which a vacuum leaves
    is_estimate: bool

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        return f"{about}{self.files} removed files with {amount(self.size)}"


LAST_FULL = StateKey(
    name="last-full-vacuum", default=PastVacuum(),
    encode=lambda one: f"{one.at},{one.cutoff}", decode=lambda text: PastVacuum(*map(int, text.split(","))),
)  # fmt: skip


def decide(context: DeltaContext) -> Need | Skip:
    """The longest retention counts: the floor's, the table's, our setting's, the request's."""
    retention = max(context.values[RETAIN], context.snapshot.retention)
    cutoff = context.table.now - retention
    removed = removed_for(context, milliseconds(cutoff))
    text = f"{removed} are older than {duration_text(retention)}"
    parameters: dict[str, Json] = {"retain_hours": math.ceil(retention / timedelta(hours=1))}
    if removed.outside:
        text += f"; {removed.outside} more lie outside of the table and are left"
        parameters["left_outside"] = removed.outside
    if not context.by_person and (why_due := full_due(context)):
        return Need(reason=f"{why_due}; {text}", parameters={**parameters, "mode": FULL})
    if not context.by_person and removed.files < context.values[MIN_FILES]:
        return Skip(reason=f"{text} since the last vacuum; {describe_waiting(context.snapshot, cutoff)}")
    mode, why_full = mode_of(context)
    if mode == LITE and not can_be_lite(context.snapshot):
        return Skip(reason=f"{text}; a lite vacuum is impossible, as the log no longer names all of them")
    return Need(reason=f"{text}{why_full}", parameters={**parameters, "mode": mode})


def mode_of(context: DeltaContext) -> tuple[str, str]:
    """How to vacuum, and in words why by listing when that was not asked for."""
    mode = context.values[MODE]
    if mode != AUTO:
        return mode, ""
    if can_be_lite(context.snapshot):
        return LITE, ""
    return FULL, "; the log no longer names all of them, so the folder is listed"


def can_be_lite(snapshot: DeltaSnapshot) -> bool:
    """Delta refuses where commits are gone that no vacuum has seen."""
    return snapshot.log.first_commit == 0 or last_seen(snapshot) >= snapshot.log.first_commit


def last_seen(snapshot: DeltaSnapshot) -> int:
    """The newest version whose removed files the last vacuum deleted."""
    version = snapshot.log.document(LAST).get(LAST_VERSION)
    return version if isinstance(version, int) else -1


def full_due(context: DeltaContext) -> str | None:
    """Files that no commit ever named are found only by listing, which is done seldom."""
    interval = context.values[FULL_INTERVAL]
    if not interval or context.values[MODE] == LITE:
        return None
    since = context.table.state(LAST_FULL).at
    start = moment_of(since) if since else context.table.table.created_at
    if context.table.now - start < interval:
        return None
    return f"the last full vacuum was {start:%Y-%m-%d}" if since else f"registered {start:%Y-%m-%d}, and never listed"


def removed_for(context: DeltaContext, cutoff: int) -> RemovedFiles:
    """Lite vacuums leave a note in the log's folder. Full ones do not: ours are remembered, others are in the log."""
    known = context.table.state(LAST_FULL).cutoff
    removed = removed_before(context.snapshot, cutoff, known)
    if not removed.files:
        return removed
    cleaned_until = max((one.cutoff for one in past_vacuums(context.snapshot)), default=0)
    return removed_before(context.snapshot, cutoff, cleaned_until) if cleaned_until > known else removed


def past_vacuums(snapshot: DeltaSnapshot) -> Iterator[PastVacuum]:
    """Vacuums in the newest commits."""
    is_over = False
    for _, commit, info in snapshot.infos_backwards(-1, COMMITS_READ):
        if info.get("operation") == END:
            is_over = (info.get("operationParameters") or {}).get("status") == "COMPLETED"
        elif info.get("operation") == START and is_over:
            is_over = False
            yield vacuum_of(commit, info)


def vacuum_of(commit: Commit, info: Mapping[str, Any]) -> PastVacuum:
    """By the commit that began it."""
    parameters = info.get("operationParameters") or {}
    kept = str(parameters.get("specifiedRetentionMillis") or parameters.get("defaultRetentionMillis"))
    at = committed_at(commit)
    return PastVacuum(at=at, cutoff=at - int(kept) if kept.isdigit() else 0)


def removed_before(snapshot: DeltaSnapshot, cutoff: int, cleaned_until: int) -> RemovedFiles:
    versions = snapshot.log.after(last_seen(snapshot))
    old = versions[: bisect_left(versions, cutoff, key=lambda v: committed_at(snapshot.log.commit(v)))]
    chosen = old[:: math.ceil(len(old) / COMMITS_READ)] if old else []
    tombstones = removed_sizes(snapshot, chosen, cleaned_until, cutoff)
    own = [size for path, size in tombstones.items() if not is_outside(path, snapshot.location)]
    times = len(old) / len(chosen) if chosen else 1
    return RemovedFiles(
        files=round(len(own) * times),
        size=round(sum(own) * times),
        outside=round((len(tombstones) - len(own)) * times),
        is_estimate=len(chosen) < len(old),
    )


def removed_sizes(snapshot: DeltaSnapshot, versions: Sequence[int], cleaned_until: int, cutoff: int) -> dict[str, int]:
    """The files, with sizes, that these commits removed after one moment, and that nobody touched after another."""
    state = snapshot.state
    found: dict[str, int] = {}
    actions = (action for _, commit in snapshot.log.commits(versions) for action in commit)
    for tombstone in (removed_file(action["remove"]) for action in actions if "remove" in action):
        newest = state.tombstones.get(tombstone.path, tombstone)
        if tombstone.path not in state.files and cleaned_until <= newest.removed < cutoff:
            found[tombstone.path] = tombstone.size
    return found


def is_outside(path: str, location: str) -> bool:
    """Whether the log names a file elsewhere, as that of a shallow clone does: Delta deletes no such file."""
    if not _ABSOLUTE.match(path):
        return False
    whole, root = (path_in_store(text) for text in (unquote(path), location))
    return not whole.startswith(root.rstrip("/") + "/")


def path_in_store(location: str) -> str:
    """Without the many ways to write a scheme: ``file:/x`` is ``/x``, and ``s3a://b/x`` is ``//b/x``."""
    text = _SCHEME.sub("", location)
    return re.sub("^//(?=/)", "", text)


def describe_waiting(snapshot: DeltaSnapshot, cutoff: datetime) -> str:
    young = [s for s in snapshot.state.tombstones.values() if s.removed >= milliseconds(cutoff)]
    if not young:
        return "none is waiting for its time"
    first = moment_of(min(tombstone.removed for tombstone in young))
    size = amount(sum(tombstone.size for tombstone in young))
    return f"{len(young)} younger ones with {size} wait, the first since {first:%Y-%m-%d %H:%M} UTC"


def verify(effect: DeltaEffect) -> Verdict:
    if effect.snapshot.version < version_before(effect.parameters):
        return is_older(effect)
    commits = tagged(effect.snapshot, effect.parameters)
    infos = {str(info_of(commit).get("operation")): (commit, info_of(commit)) for _, commit in commits}
    (_, end), (first, start) = infos.get(END, ((), {})), infos.get(START, ((), {}))
    status = (end.get("operationParameters") or {}).get("status")
    if status != "COMPLETED":
        how = f"ended {status}" if end else "began and did not end" if start else "did not begin"
        return not_done(f"the vacuum {how}")
    if start and effect.parameters.get("mode") == FULL:  # the log forgets it after a month
        effect.table.update_state(LAST_FULL, lambda known: max(known, vacuum_of(first, start), key=lambda one: one.at))
    deleted, size = metric(end, "numDeletedFiles"), metric(start, "sizeOfDataToDelete")
    removed = kit.work_numbers(files_removed=deleted)
    counted = numbers(effect, commits, {"files_deleted": deleted, "bytes_deleted": size, **removed})
    reason = f"version {commits[-1][0]}: {deleted} files with {amount(size)} were deleted"
    return done(reason, counted, changed=deleted > 0)


def metric(info: Mapping[str, Any], name: str) -> int:
    text = str((info.get("operationMetrics") or {}).get(name, "0"))
    return int(text) if text.isdigit() else 0


VACUUM = kit.ActionDefinition(
    name=Action.register("vacuum"), strategy=at_fixed_rate(timedelta(hours=12)),  # its own two commits must not wake it
    settings=(MODE, MIN_FILES, RETAIN, FULL_INTERVAL), decide=decide, verify=verify, has_dry_run=True,
)  # fmt: skip
