# SPDX-License-Identifier: Apache-2.0
"""The REST catalog of pyiceberg, with time limits. Imports pyiceberg, so it is loaded when a catalog needs it."""

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.table import Table
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

CONNECT, READ = 5.0, 20.0  # seconds; below the deadline of plugin calls, so that a slow catalog is an error, not a hang
ARROW = {PY_IO_IMPL: "pyiceberg.io.pyarrow.PyArrowFileIO"}


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
        """The properties of a table are among these: they choose no class that is loaded here."""
        return super()._load_file_io({**(properties or {}), **ARROW}, location)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: Any) -> Table:
        """With what the catalog hands out alone: a table's own properties choose no endpoint. Spark does the same."""
        table = super()._response_to_table(identifier_tuple, table_response)
        location = table_response.metadata_location
        credentials = self._resolve_storage_credentials(table_response.storage_credentials, location)
        table.io = self._load_file_io({**table_response.config, **credentials}, location)
        return table
