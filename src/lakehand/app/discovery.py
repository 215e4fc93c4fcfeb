# SPDX-License-Identifier: Apache-2.0
"""Finds tables of all formats under a folder or a bucket. Goes into no table, into no hidden folder, along no link."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from lakehand.app.plugins import Configs
from lakehand.domain.references import TableReference
from lakehand.domain.tables import Format
from lakehand.spi.formats import TableFormat
from lakehand.storage import Storages

HIDDEN = (".", "_")  # what tables and engines keep for themselves
COMPANION = Format("iceberg")  # Delta, Hudi and Paimon can write its metadata beside their own, and stay the owner


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
        """As a person calls it: ``catalog:db.table``, or the last part of its location."""
        reference = self.reference
        if reference.catalog is None:
            return reference.location.rstrip("/").rpartition("/")[2]
        return f"{reference.catalog.name}:{reference.db_name}.{reference.table_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableFolder:
    """A place that could not be looked into, and why."""

    location: str
    reason: str


class Finder:
    """Walks with one listing per folder. ``folders`` counts them, for those who wait."""

    def __init__(self, formats: Mapping[Format, TableFormat], properties: Mapping[str, str]) -> None:
        self._formats = formats
        self._storages = Storages(properties)
        self.folders = 0

    def at(self, location: str) -> DiscoveredTable | None:
        """The table that is this very folder. Raises OSError when the folder cannot be read."""
        files, folders = self._contents(location)
        return self._recognised(location, [*files, *folders])

    def under(self, location: str) -> Iterator[DiscoveredTable | UnreadableFolder]:
        """The table at a place, or all tables below it. Raises OSError when the place itself cannot be read."""
        waiting = [location]
        while waiting:
            folder = waiting.pop()
            try:
                files, folders = self._contents(folder)
                found = self._recognised(folder, [*files, *folders])
            except OSError as error:
                if folder == location:
                    raise
                yield UnreadableFolder(location=folder, reason=reason_of(error))
                continue
            if found is not None:
                yield found
            else:
                waiting += [f"{folder}/{name}" for name in sorted(folders, reverse=True) if not name.startswith(HIDDEN)]

    def _contents(self, location: str) -> tuple[list[str], list[str]]:
        storage, path = self._storages.of(location)
        self.folders += 1
        return storage.contents(path)

    def _recognised(self, location: str, names: Collection[str]) -> DiscoveredTable | None:
        formats = [name for name, one in self._formats.items() if one.recognise(location, names)]
        if not formats:
            return None
        first, *others = sorted(formats, key=lambda name: (name == COMPANION, name))
        return DiscoveredTable(reference=TableReference(location=location), format=first, also=tuple(others))


def recogniser(
    formats: Mapping[Format, TableFormat], properties: Mapping[str, str], check_path: Callable[[str], None]
) -> Callable[[str], Format | None]:
    """The format of the table at a location, if one can be told."""
    finder = Finder(formats, properties)

    def recognise(location: str) -> Format | None:
        check_path(location)
        try:
            found = finder.at(location)
        except OSError:
            return None
        return found.format if found else None

    return recognise


def storage_properties(configs: Configs) -> Mapping[str, str]:
    """How to reach buckets: what the formats were told, all together."""
    formats = [config for (kind, _), config in sorted(configs.items()) if kind == "table-format"]
    return {key: value for config in formats for key, value in config.properties.items()}


def reason_of(error: BaseException) -> str:
    """One line: what is wrong, without the class where the text says enough."""
    text = " ".join(str(error).split())
    return text or type(error).__name__
