# SPDX-License-Identifier: Apache-2.0
"""Recognises the format of the table at a location, by the names of the files and folders there."""

from collections.abc import Callable, Collection, Mapping

from lakehand.domain.tables import Format
from lakehand.spi.formats import TableFormat
from lakehand.storage import Storages

COMPANION = Format("iceberg")  # Delta, Hudi and Paimon can write its metadata next to their own


def formats_at(formats: Mapping[Format, TableFormat], location: str, names: Collection[str]) -> list[Format]:
    """All formats that recognise the folder, the one that owns the table first."""
    found = [name for name, one in formats.items() if one.recognise(location, names)]
    return sorted(found, key=lambda name: (name == COMPANION, name))


def recogniser(
    formats: Mapping[Format, TableFormat], properties: Mapping[str, str], check_path: Callable[[str], None]
) -> Callable[[str], Format | None]:
    """A function that returns the format of the table at a location, or None if there is no known table."""
    storages = Storages(properties)

    def recognise(location: str) -> Format | None:
        check_path(location)
        try:
            storage, path = storages.of(location)
            files, folders = storage.contents(path)
        except OSError:
            return None
        return next(iter(formats_at(formats, location, [*files, *folders])), None)

    return recognise
