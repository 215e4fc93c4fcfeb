# SPDX-License-Identifier: Apache-2.0
"""Where a table is: a location, and for the tables of a catalog the catalog and the name in it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakehand.domain.errors import Invalid
from lakehand.domain.tables import Format

READER = "reader."  # a property with this prefix is for our own reading of metadata only
ENGINE = "engine."  # and with this one for the engine only
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A catalog of the settings. Its properties may hold secrets: they are given to readers and engines, not shown."""

    name: str
    format: Format
    type: str  # "hadoop", "jdbc", "rest", "hive", "glue", "filesystem"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Invalid(f"{self.name!r} is not the name of a catalog: a letter, then letters, digits and underscores")

    @property
    def warehouse(self) -> str:
        return self.properties.get("warehouse", "")

    @property
    def reader_properties(self) -> Mapping[str, str]:
        return dict(self._properties_for(READER, other=ENGINE))

    @property
    def engine_properties(self) -> Iterator[tuple[str, str]]:
        yield "type", self.type
        yield from self._properties_for(ENGINE, other=READER)

    def _properties_for(self, own: str, *, other: str) -> Iterator[tuple[str, str]]:
        """Those for both, then those for one side alone, which win."""
        yield from ((k, v) for k, v in self.properties.items() if not k.startswith((own, other)))
        yield from ((k.removeprefix(own), v) for k, v in self.properties.items() if k.startswith(own))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """Where one table is."""

    location: str  # empty for a listed table with a problem
    catalog: Catalog | None = None
    db_name: str = ""  # with a catalog: the namespace, with dots
    table_name: str = ""
    problem: str = ""  # in the list of a catalog: why this table cannot be read
