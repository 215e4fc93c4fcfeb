# SPDX-License-Identifier: Apache-2.0
"""A table: where it is, whose it is, and what is wanted for it.

Where it is: a location, and for the tables of a catalog the catalog and the name in it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NewType

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.health import HealthPoint
from lakehand.domain.texts import Word

TableId = NewType("TableId", int)
Format = NewType("Format", str)

HEARTBEAT_TIMEOUT = timedelta(minutes=10)

READER = "reader."  # a property with this prefix is for our own reading of metadata only
ENGINE = "engine."  # and with this one for the engine only
_CATALOG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class Scheduling(Word):
    WRITER = "writer"  # the writer leaves plans; we run them
    SERVICE = "service"  # we plan and run, under the table's lock


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The description of a table, with its location normalised."""

    location: str
    format: Format
    db_name: str = ""
    table_name: str = ""
    owner: str = "default"
    queue: str = "default"
    priority: int = 0  # the higher, the sooner
    action_types: frozenset[Action] = frozenset()
    scheduling: Scheduling = Scheduling.WRITER
    heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT  # probed after this long without a notification
    catalog: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A registered table."""

    id: TableId
    spec: TableSpec
    paused: bool = False
    pause_reason: str = ""  # why the service paused it; empty if it is not paused, or if a person did it
    removed: bool = False
    change_token: str | None = None  # what the last probe saw
    changed_at: datetime | None = None  # when a probe last saw a change
    probed_at: datetime | None = None  # when it was last probed
    notified_at: datetime | None = None  # of the last notification
    created_at: datetime
    updated_at: datetime
    probe_due: datetime | None = None  # next probe without a notification
    problem: str = ""  # why it cannot be read; empty while it can
    problem_since: datetime | None = None
    health: HealthPoint | None = None  # its newest numbers: files, small_files, bytes, small_bytes
    path_key: str = ""  # of its location with all links resolved, as it was last seen; empty: not known yet

    @property
    def location(self) -> str:
        return self.spec.location

    @property
    def format(self) -> Format:
        return self.spec.format

    @property
    def name(self) -> str:
        return f"{self.spec.db_name}.{self.spec.table_name}" if self.spec.db_name else self.spec.table_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """Changes to a table; None leaves a value as it is."""

    owner: str | None = None
    queue: str | None = None
    priority: int | None = None
    action_types: frozenset[Action] | None = None
    scheduling: Scheduling | None = None
    heartbeat_timeout: timedelta | None = None
    properties: Mapping[str, str] | None = None
    paused: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A catalog of the settings. Its properties may hold secrets: they are given to readers and engines, not shown."""

    name: str
    format: Format
    type: str  # "hadoop", "jdbc", "rest", "hive", "glue", "filesystem"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not _CATALOG_NAME.fullmatch(self.name):
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
