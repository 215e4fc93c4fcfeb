# SPDX-License-Identifier: Apache-2.0
"""What of a table is z-ordered. Delta does not say it of a file, so it is told by when the file was written.

The files of a z-order were all written between two moments that its commit tells. They are remembered as a window: in
the state that we keep per table, and without one they are found again in the log, as far back as it goes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehand.formats.delta.files import DataFile
from lakehand.formats.delta.log import Commit
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import StateKey

LOOKED_AT = 500  # commits, newest first, for a z-order that we do not remember
MOST = 100  # windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    version: int
    first: int  # milliseconds since 1970
    last: int

    def holds(self, file: DataFile) -> bool:
        return self.first <= file.modified <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The z-orders of a table by some columns."""

    columns: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()  # newest first

    @property
    def newest(self) -> int:
        return max((window.version for window in self.windows), default=-1)

    def hold(self, file: DataFile) -> bool:
        return any(window.holds(file) for window in self.windows)

    def joined(self, more: Iterable[Window], alive: Iterable[DataFile]) -> "Clusters":
        """With new windows, and without those of which no file is left."""
        by_version = {window.version: window for window in (*self.windows, *more)}
        files = list(alive)
        kept = [w for w in by_version.values() if any(w.holds(file) for file in files)]
        kept.sort(key=lambda window: -window.version)
        return Clusters(columns=self.columns, windows=tuple(kept[:MOST]))


def encode(clusters: Clusters) -> str:
    windows = [[window.version, window.first, window.last] for window in clusters.windows]
    return json.dumps({"columns": clusters.columns, "windows": windows})


def decode(text: str) -> Clusters:
    document = json.loads(text)
    windows = (Window(version=v, first=first, last=last) for v, first, last in document["windows"])
    return Clusters(columns=tuple(document["columns"]), windows=tuple(windows))


CLUSTERED = StateKey(name="clustered", default=Clusters(), encode=encode, decode=decode)


def clusters_of(snapshot: DeltaSnapshot, columns: Sequence[str], known: Clusters) -> Clusters:
    """What we remember, and what the log tells since then."""
    wanted = normalised(columns)
    start = known if known.columns == wanted and known.newest <= snapshot.version else Clusters(columns=wanted)
    found = snapshot.infos_backwards(start.newest, LOOKED_AT)
    more = [one for version, commit, info in found if (one := window_of(version, commit, info, wanted))]
    return start.joined(more, snapshot.files.values())


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
    return normalised(str(column) for column in columns)


def normalised(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(column.strip("`").lower() for column in columns)
