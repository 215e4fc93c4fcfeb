# SPDX-License-Identifier: Apache-2.0
"""What the pages are given: the services of the core, and how to recognise a caller. They build none of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehand.core.catalog_service import CatalogService
from lakehand.core.explain import Explainer
from lakehand.core.fleet_service import FleetService
from lakehand.core.health_service import HealthService
from lakehand.core.operation_service import OperationService
from lakehand.core.ports import Clock, Events, Instances, PluginReport
from lakehand.core.table_service import TableService
from lakehand.core.table_settings import EffectiveSetting
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableSpec
from lakehand.web.live import LiveFeed
from lakehand.web.sessions import Sessions


class DiscoveredTable(Protocol):
    """A table that was found below a folder or in a catalog, and checked."""

    @property
    def location(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def name(self) -> str: ...
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """What every page can reach."""

    tables: TableService
    operations: OperationService
    catalogs: CatalogService
    explainer: Explainer
    fleet: FleetService
    health: HealthService
    events: Events
    instances: Instances
    clock: Clock
    plugins: Callable[[], Sequence[PluginReport]]
    readiness: Callable[[], Mapping[str, str]]  # part → "ok", or what is wrong with it
    settings_of: Callable[[Table], Sequence[EffectiveSetting]]
    discover: Callable[[str], Iterator[DiscoveredTable]]  # a folder, a bucket or a catalog; raises LakehandError
    new_table: Callable[[str], TableSpec]  # how a discovered location or catalog table is registered
    warehouses: Sequence[str]
    sessions: Sessions
    feed: LiveFeed
    on_wrong_token: Callable[[str], None]  # of the address that sent it
    version: str
    instance: str = ""
