# SPDX-License-Identifier: Apache-2.0
"""Finds tables of all formats under a folder or a bucket. Does not descend into tables, hidden folders or links."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lakehand.app.locations import formats_at
from lakehand.domain.tables import Format, TableReference
from lakehand.spi.formats import TableFormat
from lakehand.storage import Storages

HIDDEN = (".", "_")  # internal folders of tables and engines


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredTable:
    """A table; ``also`` names other formats that the same folder can be read as."""

    reference: TableReference
    format: Format
    also: tuple[Format, ...] = ()

    @property
    def location(self) -> str:
        return self.reference.location

    @property
    def name(self) -> str:
        """``catalog:db.table``, or the last part of its location."""
        reference = self.reference
        if reference.catalog is None:
            return reference.location.rstrip("/").rpartition("/")[2]
        return f"{reference.catalog.name}:{reference.db_name}.{reference.table_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableFolder:
    """A folder or catalog that could not be listed, and why."""

    location: str
    reason: str


class Finder:
    """Walks a folder tree with one listing per folder. ``folders`` counts the listings, for progress."""

    def __init__(self, formats: Mapping[Format, TableFormat], properties: Mapping[str, str]) -> None:
        self._formats = formats
        self._storages = Storages(properties)
        self.folders = 0

    def under(self, location: str) -> Iterator[DiscoveredTable | UnreadableFolder]:
        """The table at a location, or all tables below it. Raises OSError when the location cannot be read."""
        waiting = [location]
        while waiting:
            folder = waiting.pop()
            try:
                files, folders = self._contents(folder)
                found = self._recognise(folder, [*files, *folders])
            except OSError as error:
                if folder == location:
                    raise
                yield UnreadableFolder(location=folder, reason=one_line(error))
                continue
            if found is not None:
                yield found
            else:
                waiting += [f"{folder}/{name}" for name in sorted(folders, reverse=True) if not name.startswith(HIDDEN)]

    def _contents(self, location: str) -> tuple[list[str], list[str]]:
        storage, path = self._storages.of(location)
        self.folders += 1
        return storage.contents(path)

    def _recognise(self, location: str, names: Collection[str]) -> DiscoveredTable | None:
        formats = formats_at(self._formats, location, names)
        if not formats:
            return None
        owner, *others = formats
        return DiscoveredTable(reference=TableReference(location=location), format=owner, also=tuple(others))


def one_line(error: BaseException) -> str:
    """The error's text on one line, or its class if it has none."""
    text = " ".join(str(error).split())
    return text or type(error).__name__
