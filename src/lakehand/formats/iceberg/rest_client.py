# SPDX-License-Identifier: Apache-2.0
"""Catalogs and files of pyiceberg, with bounds. Imports pyiceberg, so it is loaded when a catalog needs it."""

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table import Table
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from lakehand.storage import WITHIN, ReadBoundary

CONNECT, READ = 5.0, 20.0  # seconds; below the deadline of plugin calls, so that a slow catalog is an error, not a hang
ARROW = {PY_IO_IMPL: "lakehand.formats.iceberg.rest_client.BoundedFileIO"}


class BoundedFileIO(PyArrowFileIO):
    """Opens nothing outside of the warehouses, whatever location a metastore names."""

    def new_input(self, location: str) -> PyArrowFile:
        within = self.properties.get(WITHIN)
        if within is not None:
            ReadBoundary.of(within).check(location)
        return super().new_input(location)


def ignore_table_properties(catalog: Catalog) -> Catalog:
    """A table's own properties choose no class that is loaded here, no endpoint and no boundary."""

    def load_own(properties: Any = None, location: str | None = None) -> FileIO:
        return load_file_io(catalog.properties, location)

    vars(catalog)["_load_file_io"] = load_own
    return catalog


class BoundedAdapter(HTTPAdapter):
    """Gives every request a time limit; requests itself has none."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        return super().send(request, *args, **{**options, "timeout": options.get("timeout") or (CONNECT, READ)})


class BoundedRestCatalog(RestCatalog):
    def _config_headers(self, session: Session) -> None:
        """The first thing that is done to a new session, before it asks for a token."""
        super()._config_headers(session)
        for scheme in ("https://", "http://"):
            session.mount(scheme, BoundedAdapter())

    def _load_file_io(self, properties: Any = None, location: str | None = None) -> FileIO:
        """The properties of a table are among these: they choose no class that is loaded here, and no boundary."""
        own = {key: value for key, value in self.properties.items() if key == WITHIN}
        return super()._load_file_io({**(properties or {}), **ARROW, **own}, location)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: Any) -> Table:
        """With what the catalog hands out alone: a table's own properties choose no endpoint. Spark does the same."""
        table = super()._response_to_table(identifier_tuple, table_response)
        location = table_response.metadata_location
        credentials = self._resolve_storage_credentials(table_response.storage_credentials, location)
        table.io = self._load_file_io({**table_response.config, **credentials}, location)
        return table
