# SPDX-License-Identifier: Apache-2.0
"""The timeline: what the names of its files say, in both layouts."""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

from lakehand.domain.texts import Word
from lakehand.spi import Instant, Json
from lakehand.spi.kit.conversions import items
from lakehand.storage import Entry

_NAME = re.compile(r"(\d{14}|\d{17})(?:_(\d{14}|\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")
_INSTANT = re.compile(r"\d{14}|\d{17}")
WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
PLAIN_WRITES = ("commit", "deltacommit")
LOG_COMPACTED = "logcompaction"  # Hudi's word for a plan that completes as a deltacommit


class State(Word):
    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


class TimelineFile(NamedTuple):
    """One file of the timeline: an action of the table, or a step of it."""

    name: str
    instant: Instant
    action: str  # Hudi's word: commit, deltacommit, compaction, replacecommit, clustering, clean, ...
    state: State
    modified: datetime


def parse_entry(entry: Entry) -> TimelineFile | None:
    """The file behind a name; None for everything that is not part of the timeline."""
    step = parse_name(entry.name)
    return None if step is None else TimelineFile(entry.name, *step, modified=entry.modified)


def parse_name(name: str) -> tuple[Instant, str, State] | None:
    """Instant, action and state; None for names that are not part of the timeline."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    instant, _, action, step = found.groups()
    if action == "inflight":  # a commit under way has no word for its action
        action, step = "commit", "inflight"
    return Instant(instant), action, State(step) if step else State.COMPLETED


def is_instant(text: str) -> bool:
    return bool(_INSTANT.fullmatch(text))


def instants_in(value: Json) -> list[Instant]:
    """The instants that a parameter or a result lists."""
    return [Instant(str(item)) for item in items(value)]


def completion(file: "TimelineFile") -> str:
    """When a completed step was completed; layout 1 knows only when it began."""
    found = _NAME.fullmatch(file.name)
    return (found and found[2]) or file.instant


def committed_at(file: TimelineFile, *, utc: bool) -> datetime:
    """By the storage's clock, or by the name where the timeline is in UTC.

    Otherwise names have the local time of whoever wrote them, and no table says where that is.
    """
    if utc:
        with suppress(ValueError):  # digits that are not a time
            return datetime.strptime(completion(file)[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return file.modified


def in_order(instant: str) -> str:
    """Instants of 14 and of 17 digits, made comparable."""
    return instant.ljust(17, "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The files of the active timeline, oldest instant first."""

    files: tuple[TimelineFile, ...]

    @staticmethod
    def of(entries: Iterable[Entry]) -> "Timeline":
        files = [file for entry in entries if (file := parse_entry(entry))]
        return Timeline(files=tuple(sorted(files, key=lambda f: (in_order(f.instant), f.name))))

    def completed(self, *actions: str) -> list[TimelineFile]:
        return [f for f in self.files if f.state is State.COMPLETED and (not actions or f.action in actions)]

    def completed_at(self, instant: str) -> list[TimelineFile]:
        """The completed files of one instant: none, one, or, in a damaged table, more. A savepoint is beside them."""
        return [f for f in self.completed() if f.instant == instant and f.action != "savepoint"]

    def pending(self) -> list[TimelineFile]:
        """The furthest step of each instant that is not completed."""
        done = {f.instant for f in self.completed()}
        open_ones: dict[str, TimelineFile] = {}
        for file in self.files:
            if file.instant not in done and (file.instant not in open_ones or file.state is State.INFLIGHT):
                open_ones[file.instant] = file
        return list(open_ones.values())

    def requested_at(self, instant: str) -> list[TimelineFile]:
        return [f for f in self.files if f.instant == instant and f.state is State.REQUESTED]

    def writes_since(self, instant: str, *actions: str) -> list[TimelineFile]:
        """Completed writes that began after an instant; after the beginning of time when it is empty."""
        wanted = actions or tuple(WRITES)
        merges = set(self.log_compactions())
        later = (f for f in self.completed(*wanted) if in_order(f.instant) > in_order(instant))
        return [f for f in later if f.instant not in merges]

    def log_compactions(self) -> list[Instant]:
        """Instants of log compactions, pending or completed: they merge what writers wrote, and are not writes."""
        return [f.instant for f in self.files if f.action == LOG_COMPACTED and f.state is State.REQUESTED]

    @property
    def newest_write(self) -> str:
        """The newest completed write, empty when there is none."""
        writes = self.completed(*WRITES)
        return writes[-1].instant if writes else ""
