# SPDX-License-Identifier: Apache-2.0
"""What the pages are given: the services of the core, and how to recognise a caller. They build none of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehand.api.tables import NewTable, SettingAnswer
from lakehand.core.ports import Clock, Events, Instances, PluginReport
from lakehand.core.services.access import AccessService
from lakehand.core.services.alerts import AlertService
from lakehand.core.services.catalogs import CatalogService
from lakehand.core.services.explain import Explainer
from lakehand.core.services.fleet import FleetService
from lakehand.core.services.health import HealthService
from lakehand.core.services.operations import OperationService
from lakehand.core.services.requests import Requests
from lakehand.core.services.tables import TableService
from lakehand.domain.errors import Unavailable
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table
from lakehand.web.live import LiveFeed


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

    tables: TableService
    operations: OperationService
    catalogs: CatalogService
    alerts: AlertService
    explainer: Explainer
    fleet: FleetService
    health: HealthService
    events: Events
    instances: Instances
    clock: Clock
    plugins: Callable[[], Sequence[PluginReport]]
    readiness: Callable[[], Mapping[str, str]]  # part → "ok", or what is wrong with it
    settings_of: Callable[[Table], Sequence[SettingAnswer]]
    discovery: TableDiscovery
    warehouses: Sequence[str]
    access: AccessService
    requests: Requests
    feed: LiveFeed
    version: str
    instance: str = ""
