# SPDX-License-Identifier: Apache-2.0
"""Finds and checks tables for a running service: with its own plugins, and only where it may serve tables."""

from collections.abc import Iterator

from lakehand.api.tables import NewTable
from lakehand.app.plugins import storage_properties
from lakehand.app.wiring import Service
from lakehand.domain.errors import NotFound
from lakehand.domain.locations import normalise
from lakehand.local.check import CheckedTable, TableChecker, check_tables
from lakehand.local.discovery import DiscoveredTable
from lakehand.local.reader import LocalReader


class ServiceDiscovery:
    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._service = service
        self._catalogs = settings.served_catalogs()
        self._reader = LocalReader(
            plugins=service.plugins, catalogs=settings.catalog_map(),
            storage=storage_properties(settings.plugin_configs()),
        )  # fmt: skip

    def discover(self, where: str) -> Iterator[CheckedTable]:
        path = where if self.is_catalog(where) else self.admitted(where)
        checker = TableChecker(plugins=self._service.plugins)
        yield from check_tables([path], self._reader, self._reader.finder(), checker)

    def new_table(self, reference: str) -> NewTable:
        if self.is_catalog(reference):
            return self.catalog_table(reference)
        return NewTable(location=self.admitted(reference))

    def catalog_table(self, reference: str) -> NewTable:
        found = self._reader.tables_of(reference, self._reader.finder())
        tables = [one for one in found if isinstance(one, DiscoveredTable)]
        if not tables:
            raise NotFound(f"the catalog does not list {reference} any more")
        known, served = tables[0].reference, self._catalogs[reference.partition(":")[0]]
        return NewTable(
            location=known.location, format=tables[0].format, catalog=served.catalog.name, db_name=known.db_name,
            table_name=known.table_name, owner=served.owner, queue=served.queue, action_types=sorted(served.actions),
        )  # fmt: skip

    def is_catalog(self, text: str) -> bool:
        name, colon, inside = text.partition(":")
        return bool(colon) and not inside.startswith("/") and name in self._catalogs

    def admitted(self, where: str) -> str:
        """The normalised location, if the service may read it; links are followed."""
        location = normalise(where)
        self._service.tables.check_path(location)
        return location
