# SPDX-License-Identifier: Apache-2.0
"""The live files of a table, from a listing of its folder and its timeline: for health in numbers."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lakehand.formats.hudi.timeline import Timeline, in_order
from lakehand.spi import Json, health
from lakehand.storage import Entry

SMALL = 100 * health.MB  # what Hudi's writers call small by default
_BASE = re.compile(r"([^_.][^_]*)_\d+-\d+-\d+_(\d{14}|\d{17})\.(?:parquet|orc|hfile|lance)")
_LOG = re.compile(r"\.([^_]+)_(\d{14}|\d{17})(?:\.[a-z]+)?\.log\.\d+(?:_\d+-\d+-\d+)?(?:\.cdc)?")
Files = dict[str, list[tuple[str, int]]]  # file group → instant in order and size of each file


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    base: tuple[int, ...]  # sizes
    logs: tuple[int, ...]

    @property
    def numbers(self) -> dict[str, Json]:
        counted = health.file_numbers(self.base, [size for size in self.base if size < SMALL])
        return {**counted, health.LOG_FILES: len(self.logs), "log_bytes": sum(self.logs)}


def live_files(entries: Iterable[Entry], timeline: Timeline, replaced: Collection[str]) -> LiveFiles:
    """The newest committed base file of each file group, and the logs that came with it or after it.

    A write is part of the table when it is completed, or so old that it has left the active timeline.
    """
    completed = {in_order(file.instant) for file in timeline.completed()}
    first = min((in_order(file.instant) for file in timeline.files), default="")
    bases, logs = by_group(entries, replaced)
    newest: dict[str, tuple[str, int]] = {}
    for group, files in bases.items():
        if committed := [one for one in files if one[0] in completed or one[0] < first]:
            newest[group] = max(committed)
    later = [size for group, files in logs.items() for at, size in files if at >= newest.get(group, ("", 0))[0]]
    return LiveFiles(base=tuple(size for _, size in newest.values()), logs=tuple(later))


def by_group(entries: Iterable[Entry], replaced: Collection[str]) -> tuple[Files, Files]:
    """Base files, and logs on top of them, by the file group that they belong to."""
    bases: Files = defaultdict(list)
    logs: Files = defaultdict(list)
    for entry in entries:
        folder, _, name = entry.name.rpartition("/")
        is_log = name.startswith(".")
        found = (_LOG if is_log else _BASE).fullmatch(name)
        if found is not None and found[1] not in replaced:
            (logs if is_log else bases)[f"{folder}/{found[1]}"].append((in_order(found[2]), entry.size))
    return bases, logs
