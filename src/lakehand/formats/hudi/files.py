# SPDX-License-Identifier: Apache-2.0
"""The live files of a table, from a listing of its folder and its timeline: for health in numbers."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lakehand.formats.hudi.timeline import Timeline, in_order
from lakehand.spi import Json, health
from lakehand.storage import Entry

SMALL = 100 * health.MB  # what Hudi's writers call small, unless they are told otherwise
_BASE = re.compile(r"([^_.][^_]*)_\d+-\d+-\d+_(\d{14}|\d{17})\.(?:parquet|orc|hfile|lance)")
_LOG = re.compile(r"\.([^_]+)_(\d{14}|\d{17})(?:\.[a-z]+)?\.log\.\d+(?:_\d+-\d+-\d+)?(?:\.cdc)?")


@dataclass(slots=True)
class FileGroup:
    """The files that share an id: base files of different times, and logs on top of them."""

    bases: list[tuple[str, int]] = field(default_factory=list)  # instant in order, size
    logs: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    base: tuple[int, ...]  # sizes
    logs: tuple[int, ...]

    @property
    def numbers(self) -> dict[str, Json]:
        small = [size for size in self.base if size < SMALL]
        return {
            health.FILES: len(self.base),
            health.BYTES: sum(self.base),
            health.SMALL_FILES: len(small),
            health.SMALL_BYTES: sum(small),
            health.HISTOGRAM: health.size_histogram(self.base),
            health.LOG_FILES: len(self.logs),
            "log_bytes": sum(self.logs),
        }


def live_files(entries: Iterable[Entry], timeline: Timeline, replaced: Collection[str]) -> LiveFiles:
    """The newest committed base file of each file group, and the logs that came with it or after it."""
    is_committed = Committed(timeline)
    base: list[int] = []
    logs: list[int] = []
    for group in groups_of(entries, replaced).values():
        newest, size = max((one for one in group.bases if is_committed(one[0])), default=("", -1))
        if size >= 0:
            base.append(size)
        logs += [size for instant, size in group.logs if instant >= newest]
    return LiveFiles(base=tuple(base), logs=tuple(logs))


def groups_of(entries: Iterable[Entry], replaced: Collection[str]) -> Mapping[str, FileGroup]:
    groups: dict[str, FileGroup] = {}
    for entry in entries:
        folder, _, name = entry.name.rpartition("/")
        is_log = name.startswith(".")
        found = (_LOG if is_log else _BASE).fullmatch(name)
        if found is None or found[1] in replaced:
            continue
        group = groups.setdefault(f"{folder}/{found[1]}", FileGroup())
        (group.logs if is_log else group.bases).append((in_order(found[2]), entry.size))
    return groups


class Committed:
    """Whether a write is part of the table: completed, or so old that it has left the active timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self._done = {in_order(file.instant) for file in timeline.completed()}
        self._first = min((in_order(file.instant) for file in timeline.files), default="")

    def __call__(self, instant: str) -> bool:
        return instant in self._done or instant < self._first
