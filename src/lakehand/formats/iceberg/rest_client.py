# SPDX-License-Identifier: Apache-2.0
"""Catalogs, pages of their lists, and files of pyiceberg, bounded. Loads pyiceberg: imported when that is needed."""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import (
    _RETRY_ARGS,
    PAGE_SIZE,
    Capability,
    Endpoints,
    ListNamespaceResponse,
    ListTablesResponse,
    RestCatalog,
)
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import PY_IO_IMPL, FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table import Table
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import HTTPError
from tenacity import retry

from lakehand.spi import Invalid
from lakehand.storage import WITHIN, ReadBoundary

CONNECT, READ = 5.0, 20.0  # seconds; below the deadline of plugin calls, so that a slow catalog is an error, not a hang
ARROW = {PY_IO_IMPL: "lakehand.formats.iceberg.rest_client.BoundedFileIO"}
MOST_NAMES = 500_000  # in one list
MOST_PAGES = 20_000
MOST_IDLE = 10  # pages in a row without anything new; an empty one is allowed, for example of views

Name = tuple[str, ...]
Ask = Callable[[str | None], tuple[Iterable[Name], str | None]]


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

    def list_namespaces(self, namespace: str | Name = ()) -> list[Name]:
        """As the library's, but its list has an end."""
        self._check_endpoint(Capability.V1_LIST_NAMESPACES)
        above = self.identifier_to_tuple(namespace)
        given = {"parent": self._encode_namespace_path(above)} if above else {}

        def ask(token: str | None) -> tuple[list[Name], str | None]:
            page = ListNamespaceResponse.model_validate_json(self._page(Endpoints.list_namespaces, given, token))
            return page.namespaces, page.next_page_token

        return all_pages(ask, what=f"namespaces of the catalog {self.name}")

    def list_tables(self, namespace: str | Name) -> list[Name]:
        """As the library's, but its list has an end."""
        self._check_endpoint(Capability.V1_LIST_TABLES)
        path = self._encode_namespace_path(self._check_valid_namespace_identifier(namespace))

        def ask(token: str | None) -> tuple[list[Name], str | None]:
            page = ListTablesResponse.model_validate_json(self._page(Endpoints.list_tables, {}, token, namespace=path))
            return [(*one.namespace, one.name) for one in page.identifiers], page.next_page_token

        return all_pages(ask, what=f"tables of {path} in the catalog {self.name}")

    @retry(**_RETRY_ARGS)  # type: ignore[call-overload, untyped-decorator]
    def _page(self, endpoint: str, given: dict[str, str], token: str | None, **path: str) -> str:
        size = self.properties.get(PAGE_SIZE)
        optional = {"pageSize": size, "pageToken": token}
        parameters = {**given, **{key: value for key, value in optional.items() if value}}
        response = self._session.get(self.url(endpoint, True, **path), params=parameters)
        try:
            response.raise_for_status()
        except HTTPError as error:
            _handle_non_200_response(error, {404: NoSuchNamespaceError})
        return str(response.text)

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


def all_pages(ask: Ask, *, what: str) -> list[Name]:
    """Each name once, with an end: whatever the catalog answers, it fills no memory.

    ``ask`` returns the names of a page and the token of the next one; ``what`` is for errors."""
    found: dict[Name, None] = {}
    tokens: set[bytes] = set()
    token, idle = None, 0
    for _ in range(MOST_PAGES):
        before = len(found)
        names, token = ask(token)
        found.update(dict.fromkeys(names))
        if not token:
            return list(found)
        idle = 0 if len(found) > before else idle + 1
        short = blake2b(token.encode(), digest_size=16).digest()  # a token may be long
        if len(found) > MOST_NAMES:
            raise endless(what, f"it has more than {MOST_NAMES} names")
        if idle and short in tokens:
            raise endless(what, "a page token comes again, and brings nothing new")
        if idle >= MOST_IDLE:
            raise endless(what, f"{idle} pages in a row bring nothing new")
        tokens.add(short)
    raise endless(what, f"it has more than {MOST_PAGES} pages")


def endless(what: str, why: str) -> Invalid:
    return Invalid(f"the list of {what} does not end: {why}. Nothing is retired; look at the catalog's page tokens")
