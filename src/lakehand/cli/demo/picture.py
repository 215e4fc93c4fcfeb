# SPDX-License-Identifier: Apache-2.0
"""A table at one moment in figures: what lies on storage, what a query opens, and what a reader sees."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehand.formats.hudi.plans import read_document

BASE = re.compile(r"(?P<group>.+?)_[^_]+_(?P<instant>\d+)\.parquet")
LOG = re.compile(r"\.(?P<group>[^.].*?)_(?P<instant>\d+)\.log\.\d+(_[\w-]+)?")
PLAN = re.compile(r"(\d+)\.(?:compaction|clustering|replacecommit|clean)\.requested")
DONE = re.compile(r"(\d+)_\d+\..*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What the folders of a table hold."""

    stored: int
    bytes: int
    base_opened: int
    logs_opened: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    files: Files
    rows: int
    checksum: str
    seconds: float  # of one query over the whole table


def picture(location: Path, seen: Mapping[str, Any]) -> Picture:
    return Picture(
        files=count(location), rows=int(seen["rows"]), checksum=str(seen["checksum"]), seconds=float(seen["seconds"])
    )


def count(location: Path) -> Files:
    timeline = [path.name for path in (location / ".hoodie" / "timeline").iterdir()]
    data = [path for path in location.rglob("*") if is_data(path, location)]
    base, logs = opened([path.name for path in data], replaced(location, timeline))
    return Files(
        stored=len(data),
        bytes=sum(path.stat().st_size for path in data),
        base_opened=base,
        logs_opened=logs,
        pending=len(pending(timeline)),
    )


def is_data(path: Path, location: Path) -> bool:
    inside = path.relative_to(location).parts
    return ".hoodie" not in inside and bool(BASE.fullmatch(path.name) or LOG.fullmatch(path.name)) and path.is_file()


def opened(names: Iterable[str], gone: set[str]) -> tuple[int, int]:
    """Base and log files of the newest version of each file group that no clustering has replaced."""
    newest: dict[str, str] = defaultdict(str)
    logs = []
    for name in names:
        if (found := BASE.fullmatch(name)) and found["group"] not in gone:
            newest[found["group"]] = max(newest[found["group"]], found["instant"])
        elif (found := LOG.fullmatch(name)) and found["group"] not in gone:
            logs.append((found["group"], found["instant"]))
    return len(newest), sum(instant > newest.get(group, "") for group, instant in logs)


def replaced(location: Path, timeline: Iterable[str]) -> set[str]:
    gone: set[str] = set()
    for name in timeline:
        if DONE.fullmatch(name) and name.endswith(".replacecommit"):
            document = read_document((location / ".hoodie" / "timeline" / name).read_bytes())
            for groups in document.get("partitionToReplaceFileIds", {}).values():
                gone.update(groups)
    return gone


def pending(timeline: Iterable[str]) -> set[str]:
    names = list(timeline)
    done = {found[1] for name in names if (found := DONE.fullmatch(name))}
    return {found[1] for name in names if (found := PLAN.fullmatch(name))} - done
