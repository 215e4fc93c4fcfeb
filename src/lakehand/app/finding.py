# SPDX-License-Identifier: Apache-2.0
"""Finds tables of all formats under a folder or a bucket. Goes into no table, into no hidden folder, along no link."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from lakehand.app.plugins import Configs
from lakehand.domain.places import Place
from lakehand.domain.tables import Format
from lakehand.spi.formats import TableFormat
from lakehand.storage import Storages

HIDDEN = (".", "_")  # what tables and engines keep for themselves
COMPANION = Format("iceberg")  # Delta, Hudi and Paimon can write its metadata beside their own, and stay the owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A table; ``also`` names other formats that the same folder can be read as."""

    place: Place
    format: Format
    also: tuple[Format, ...] = ()

    @property
    def location(self) -> str:
        return self.place.location

    @property
    def name(self) -> str:
        """As a person calls it: ``catalog:db.table``, or the last part of its location."""
        place = self.place
        if place.catalog is None:
            return place.location.rstrip("/").rpartition("/")[2]
        return f"{place.catalog.name}:{place.db_name}.{place.table_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A place that could not be looked into, and why."""

    location: str
    reason: str


class Finder:
    """Walks with one listing per folder. ``folders`` counts them, for those who wait."""

    def __init__(self, formats: Mapping[Format, TableFormat], properties: Mapping[str, str]) -> None:
        self._formats = formats
        self._storages = Storages(properties)
        self.folders = 0

    def at(self, location: str) -> Found | None:
        """The table that is this very folder. Raises OSError when the folder cannot be read."""
        files, folders = self._contents(location)
        return self._recognised(location, [*files, *folders])

    def under(self, location: str) -> Iterator[Found | Unread]:
        """The table at a place, or all tables below it. Raises OSError when the place itself cannot be read."""
        waiting = [location]
        while waiting:
            place = waiting.pop()
            try:
                files, folders = self._contents(place)
                found = self._recognised(place, [*files, *folders])
            except OSError as error:
                if place == location:
                    raise
                yield Unread(location=place, reason=reason_of(error))
                continue
            if found is not None:
                yield found
            else:
                waiting += [f"{place}/{name}" for name in sorted(folders, reverse=True) if not name.startswith(HIDDEN)]

    def _contents(self, location: str) -> tuple[list[str], list[str]]:
        storage, path = self._storages.of(location)
        self.folders += 1
        return storage.contents(path)

    def _recognised(self, location: str, names: Collection[str]) -> Found | None:
        formats = [name for name, one in self._formats.items() if one.recognise(location, names)]
        if not formats:
            return None
        first, *others = sorted(formats, key=lambda name: (name == COMPANION, name))
        return Found(place=Place(location=location), format=first, also=tuple(others))


def recogniser(
    formats: Mapping[Format, TableFormat], properties: Mapping[str, str], check_place: Callable[[str], None]
) -> Callable[[str], Format | None]:
    """The format of the table at a location, if one can be told."""
    finder = Finder(formats, properties)

    def recognise(location: str) -> Format | None:
        check_place(location)
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
