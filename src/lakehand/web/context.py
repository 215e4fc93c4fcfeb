# SPDX-License-Identifier: Apache-2.0
"""What the pages are given: the services of the core, and how to recognise a caller. They build none of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehand.api.tables import NewTable
from lakehand.core.services.services import Services
from lakehand.domain.errors import Unavailable
from lakehand.domain.processes import Json
from lakehand.web.live import LivePages


class DiscoveredTable(Protocol):
    """A table that was found below a folder or in a catalog, and checked."""

    @property
    def location(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def name(self) -> str:
        """Empty when nothing says it."""

    @property
    def numbers(self) -> Mapping[str, Json]: ...
    @property
    def problem(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reference_text(self) -> str:
        """How ``new_table`` is asked for it."""

    @property
    def needed(self) -> Sequence[tuple[str, str]]:
        """The actions that it needs, each with the reason."""


class TableDiscovery(Protocol):
    """Finds tables that could be registered."""

    def discover(self, where: str) -> Iterator[DiscoveredTable]:
        """The tables of a folder, a bucket or a catalog, as they are found. Raises LakehandError."""

    def new_table(self, reference: str) -> NewTable:
        """How a discovered table is registered, by its ``reference_text``."""


class NoDiscovery:
    def discover(self, where: str) -> Iterator[DiscoveredTable]:
        raise Unavailable("this service cannot search for tables: use lakehand tables discover")

    def new_table(self, reference: str) -> NewTable:
        raise Unavailable("this service cannot search for tables: use lakehand tables add")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """What every page can reach."""

    services: Services
    discovery: TableDiscovery
    warehouses: Sequence[str]
    live: LivePages
