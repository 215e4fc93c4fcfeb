# SPDX-License-Identifier: Apache-2.0
"""Whether a table is worth vacuuming: removed files past their retention, told by the log, or a full one is due."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

from lakehand.formats.delta import settings
from lakehand.formats.delta.files import removed_file
from lakehand.formats.delta.log import Commit, committed_at
from lakehand.formats.delta.look import Look, Need
from lakehand.formats.delta.settings import AUTO, FULL, HOUR, LITE
from lakehand.formats.delta.snapshot import DeltaSnapshot, milliseconds, moment_of
from lakehand.spi import Json, Skip, StateKey, amount

MIN_FILES = 1
FULL_EVERY = 30  # days
LOOKED_AT = 500  # commits; of more than that a sample is read
LAST = "_last_vacuum_info"
LAST_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_ABSOLUTE = re.compile(rf"/|{_SCHEME.pattern}")
START, END = "VACUUM START", "VACUUM END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A vacuum that came to its end, in milliseconds since 1970."""

    at: int = 0
    cutoff: int = 0  # files that were removed earlier are gone


def encode(sweep: Sweep) -> str:
    return f"{sweep.at},{sweep.cutoff}"


def decode(text: str) -> Sweep:
    at, cutoff = text.split(",")
    return Sweep(at=int(at), cutoff=int(cutoff))


LAST_FULL = StateKey(name="last-full-vacuum", default=Sweep(), encode=encode, decode=decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What the log tells of files that were removed before a moment, and that no vacuum has seen since."""

    files: int
    size: int
    commits: int  # so old, and newer than the last vacuum
    outside: int = 0  # more of them by absolute paths outside of the table, which a vacuum leaves
    is_estimate: bool = False

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        return f"{about}{self.files} removed files with {amount(self.size)}"

    @property
    def left(self) -> str:
        return f"; {self.outside} more lie outside of the table and are left" if self.outside else ""


def decide(look: Look) -> Need | Skip:
    kept = settings.retained(look.config, look.snapshot, look.floors, look.options.get("retain_hours"))
    cutoff = look.table.now - kept
    removed = removed_for(look, milliseconds(cutoff))
    hours = math.ceil(kept / HOUR)
    told = f"{removed} are older than {hours} h{removed.left}"
    parameters: dict[str, Json] = {
        "retain_hours": hours,
        **({"left_outside": removed.outside} if removed.outside else {}),
    }
    mode, why_full = mode_of(look)
    if not look.by_person and (why_due := full_due(look)):
        return Need(reason=f"{why_due}; {told}", parameters={**parameters, "mode": FULL})
    if not look.by_person and removed.files < max(look.config.number("delta.vacuum.min-files", MIN_FILES), 1):
        return Skip(reason=f"{told} since the last vacuum; {kept_back(look.snapshot, cutoff)}")
    if mode == LITE and not can_be_lite(look.snapshot):
        return Skip(reason=f"{told}; a lite vacuum is impossible, as the log no longer names all of them")
    return Need(reason=f"{told}{why_full}", parameters={**parameters, "mode": mode})


def mode_of(look: Look) -> tuple[str, str]:
    """How to vacuum, and in words why by listing when that was not asked for."""
    mode = settings.vacuum_mode(look.config, look.options.get("mode"))
    if mode != AUTO:
        return mode, ""
    if can_be_lite(look.snapshot):
        return LITE, ""
    return FULL, "; the log no longer names all of them, so the folder is listed"


def can_be_lite(snapshot: DeltaSnapshot) -> bool:
    """Delta refuses where commits are gone that no vacuum has seen."""
    return snapshot.log.versions[0] == 0 or last_seen(snapshot) >= snapshot.log.versions[0]


def last_seen(snapshot: DeltaSnapshot) -> int:
    """The newest version whose removed files the last vacuum deleted."""
    version = snapshot.log.document(LAST).get(LAST_VERSION)
    return version if isinstance(version, int) else -1


def full_due(look: Look) -> str | None:
    """Files that no commit ever named are found only by listing, which is done seldom."""
    days = look.config.ratio("delta.vacuum.full-interval-days", FULL_EVERY)
    if days <= 0 or settings.vacuum_mode(look.config) == LITE:
        return None
    since = look.table.state(LAST_FULL).at
    start = moment_of(since) if since else look.table.table.created_at
    if look.table.now - start < timedelta(days=days):
        return None
    return f"the last full vacuum was {start:%Y-%m-%d}" if since else f"registered {start:%Y-%m-%d}, and never listed"


def removed_for(look: Look, cutoff: int) -> Removed:
    """Lite vacuums leave a note in the log's folder. Full ones do not: we remember ours, and look for others."""
    known = look.table.state(LAST_FULL).cutoff
    removed = removed_before(look.snapshot, cutoff, known)
    if not removed.files:
        return removed
    swept = max((sweep.cutoff for sweep in sweeps(look.snapshot)), default=0)
    return removed_before(look.snapshot, cutoff, swept) if swept > known else removed


def sweeps(snapshot: DeltaSnapshot) -> Iterator[Sweep]:
    """Vacuums that the newest commits tell of."""
    is_over = False
    for _, commit, info in snapshot.infos_backwards(-1, LOOKED_AT):
        if info.get("operation") == END:
            is_over = (info.get("operationParameters") or {}).get("status") == "COMPLETED"
        elif info.get("operation") == START and is_over:
            is_over = False
            yield sweep_of(commit, info)


def sweep_of(commit: Commit, info: Mapping[str, Any]) -> Sweep:
    """By the commit that began it."""
    parameters = info.get("operationParameters") or {}
    kept = str(parameters.get("specifiedRetentionMillis") or parameters.get("defaultRetentionMillis"))
    at = committed_at(commit)
    return Sweep(at=at, cutoff=at - int(kept) if kept.isdigit() else 0)


def removed_before(snapshot: DeltaSnapshot, cutoff: int, swept: int) -> Removed:
    versions = snapshot.log.after(last_seen(snapshot))
    old = versions[: bisect_left(versions, cutoff, key=lambda v: committed_at(snapshot.log.commit(v)))]
    chosen = old[:: math.ceil(len(old) / LOOKED_AT)] if old else []
    stones = gone(snapshot, (commit for _, commit in snapshot.log.commits(chosen)), swept, cutoff)
    own = [size for path, size in stones.items() if not is_outside(path, snapshot.location)]
    times = len(old) / len(chosen) if chosen else 1
    return Removed(
        files=round(len(own) * times),
        size=round(sum(own) * times),
        commits=len(old),
        outside=round((len(stones) - len(own)) * times),
        is_estimate=len(chosen) < len(old),
    )


def gone(snapshot: DeltaSnapshot, commits: Iterable[Commit], swept: int, cutoff: int) -> dict[str, int]:
    """The files, with sizes, that these commits removed after one moment, and that nobody touched after another."""
    state = snapshot.state
    found: dict[str, int] = {}
    for commit in commits:
        for action in commit:
            if "remove" in action:
                stone = removed_file(action["remove"])
                newest = state.tombstones.get(stone.path, stone)
                if stone.path not in state.files and swept <= newest.removed < cutoff:
                    found[stone.path] = stone.size
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


def kept_back(snapshot: DeltaSnapshot, cutoff: datetime) -> str:
    young = [s for s in snapshot.state.tombstones.values() if s.removed >= milliseconds(cutoff)]
    if not young:
        return "none is waiting for its time"
    first = moment_of(min(stone.removed for stone in young))
    size = amount(sum(stone.size for stone in young))
    return f"{len(young)} younger ones with {size} wait, the first since {first:%Y-%m-%d %H:%M} UTC"
