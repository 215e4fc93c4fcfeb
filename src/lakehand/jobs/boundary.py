# SPDX-License-Identifier: Apache-2.0
"""What a job may touch: the files of the table that was admitted, and nothing else.

A link, a nested table, a path in the metadata or a folder that was swapped could lead a job out of its table.
Every job checks its boundary first, and again right before it commits or deletes.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lakehand.jobs import spark
from lakehand.jobs.paths import canonical, has_scheme, is_below

SHOWN = 3
# A file that only a table has, relative to the folder of that table; what is before it names the table.
MARKERS = (
    (re.compile(r"(?:(.*)/)?_delta_log/[^/]+"), "delta"),
    (re.compile(r"(?:(.*)/)?\.hoodie/hoodie\.properties"), "hudi"),
    (re.compile(r"(?:(.*)/)?metadata/(?:version-hint\.text|[^/]*\.metadata\.json(?:\.gz)?)"), "iceberg"),
    (re.compile(r"(?:(.*)/)?(?:snapshot/(?:LATEST|EARLIEST|snapshot-[0-9]+)|schema/schema-[0-9]+)"), "paimon"),
    (re.compile(r"(?:(.*)/)?_versions/[^/]+\.manifest"), "lance"),
)


class OutsideTable(Exception):
    """The work would reach something that is not the table it was admitted for. Nothing was changed by this check."""


@dataclass(frozen=True)
class JobBoundary:
    """As the service drew it when it admitted the operation."""

    location: str  # as the table is registered
    real: str  # where that led, with all links followed: what a job gives to its engine
    warehouses: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()  # more prefixes that an operator named for this table
    folder: str = ""  # device and inode of the table's folder, on this machine's disks

    @property
    def is_local(self) -> bool:
        return self.real.startswith("/")

    def check(self) -> None:
        """Raise unless the table is the folder that was admitted, with nothing but folders and plain files below it."""
        self.check_path()
        if self.is_local:
            for _ in walk(self.real):
                pass

    def check_path(self) -> None:
        """The cheap part of the check: the location leads where it did, and that is the same folder."""
        if not any(is_below(self.real, prefix) for prefix in self.warehouses):
            raise OutsideTable(f"{self.real} is in no warehouse: the work is not done")
        if not self.is_local:
            return
        for path in (self.location, self.real):
            if (found := os.path.realpath(path)) != self.real:
                raise OutsideTable(f"{path} leads to {found} now, and the work was admitted for {self.real}")
        if self.folder and (now := folder_at(self.real)) != self.folder:
            raise OutsideTable(f"{self.real} is another folder now ({now or 'gone'}) than the one that was admitted")

    def holds(self, path: str) -> bool:
        """Whether a file, named by its whole path or relative to the table, is the table's to delete or rewrite."""
        real = self.real_path(path)
        return real is not None and any(is_below(real, prefix) for prefix in (self.real, *self.extra))

    def real_path(self, path: str) -> str | None:
        """One spelling, with links followed; None for a path with ``..``, which sound metadata never has."""
        whole = canonical(path)
        if not has_scheme(path) and not path.startswith("/"):
            whole = canonical(f"{self.real}/{path}")
        if ".." in whole.split("/"):
            return None
        return os.path.realpath(whole) if whole.startswith("/") else whole

    def outside(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if not self.holds(path)]

    def refuse_outside(self, paths: Iterable[str], *, doing: str) -> None:
        """``doing``: what would be done to them, for instance "rewrite"."""
        if foreign := self.outside(paths):
            raise OutsideTable(
                f"the table's metadata names {len(foreign)} files outside of {self.real}, not ours to {doing}:"
                f" {', '.join(foreign[:SHOWN])}. If they belong to this table alone, an operator can name their folder"
                " in its property extra-locations"
            )

    def refuse_other_table(self, found: object, admitted: object) -> None:
        """Compare what the format itself calls the identity of its table."""
        if found != admitted:
            raise OutsideTable(
                f"another table is at {self.location} now: it is {found}, and the work was admitted for {admitted}"
            )

    def refuse_tables_below(
        self, own: str, files: Iterable[str], *, also_own: Callable[[str], bool] | None = None
    ) -> None:
        """Refuse when another table lies at or below this one: whatever lists folders takes its files for ours.

        ``own`` is the table's format; ``files`` are paths relative to the table; ``also_own`` says of the folder of a
        nested table, relative to ours, whether it is a part of our table (a branch, Hudi's metadata table).
        """
        for file in files:
            for folder, kind in tables_marked_by(file):
                if (folder, kind) == ("", own) or (also_own is not None and folder and also_own(folder)):
                    continue
                what = f"a {kind} table has the same folder as this {own} table, {self.real}"
                if folder:
                    what = f"a {kind} table lies below this one, at {self.real}/{folder}"
                raise OutsideTable(f"{what} ({file}): nothing is listed or deleted here until one of them is moved")

    def files(self, session: Any) -> Iterator[str]:
        """All files below the table, relative to it, hidden ones too; on this machine links are refused on the way."""
        if not self.is_local:
            return spark.files_below(session, self.real)
        return (path for path, entry in walk(self.real) if entry is not None)


def boundary_of(parameters: dict[str, Any]) -> JobBoundary:
    """Without a boundary nothing is done: the service gives one to every operation."""
    given: Any = parameters.get("boundary")
    try:
        warehouses, extra = tuple(given["warehouses"]), tuple(given.get("extra") or ())
        boundary = JobBoundary(given["location"], given["real"], warehouses, extra, str(given.get("folder") or ""))
        if not all(isinstance(one, str) and one for one in (boundary.location, boundary.real, *warehouses, *extra)):
            raise TypeError("each location is a text")
    except (AttributeError, KeyError, TypeError) as error:
        raise OutsideTable(f"the work came without a boundary, so nothing is touched: {given!r}") from error
    if boundary.is_local and not boundary.folder:
        raise OutsideTable(f"the boundary of {boundary.real} does not say which folder was admitted")
    return boundary


def walk(root: str) -> Iterator[tuple[str, "os.DirEntry[str] | None"]]:
    """Every file, and every empty folder with None, relative to the root.

    A link, a pipe or a device raises: a job that met one would leave the table.
    """
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(f"{root}/{inside}") as found:
                entries = list(found)
        except FileNotFoundError:  # a writer's temporary folder
            continue
        if inside and not entries:
            yield inside.rstrip("/"), None
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{inside}{entry.name}/")
                continue
            refuse_odd(entry)
            yield inside + entry.name, entry


def refuse_odd(entry: "os.DirEntry[str]") -> None:
    if entry.is_file(follow_symlinks=False):
        return
    if entry.is_symlink():
        raise OutsideTable(
            f"{entry.path} is a link to {target_of(entry.path)}: no link below a table is followed. Remove it"
        )
    if os.path.lexists(entry.path):
        raise OutsideTable(f"{entry.path} is neither a file nor a folder: such a table is not worked on. Remove it")


def target_of(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - as everywhere here
    except OSError:
        return "somewhere else"


def tables_marked_by(file: str) -> Iterator[tuple[str, str]]:
    """The folder (relative, empty for the root) and the format of the table that this file is a sure sign of."""
    for pattern, kind in MARKERS:
        if match := pattern.fullmatch(file):
            yield match[1] or "", kind


def folder_at(path: str) -> str:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"
