# SPDX-License-Identifier: Apache-2.0
"""Catalogs of the settings: where each table's metadata is now, and which tables there are.

A JDBC catalog is one SQL table, which is read directly, at the address that Spark has. REST, Hive and Glue catalogs
are read through pyiceberg.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from lakehand.domain.locations import normalise
from lakehand.formats.iceberg.metadata import FOLDER, has_metadata, read_metadata
from lakehand.spi import Catalog, Invalid, TableReference
from lakehand.storage import WITHIN, ArrowStorage, OutsideWarehouses, Storage, Storages, open_database, select_rows

HADOOP, JDBC, REST = "hadoop", "jdbc", "rest"
THROUGH_PYICEBERG = frozenset({REST, "hive", "glue"})
DEEPEST = 8  # levels of namespaces
MOST_NAMESPACES, MOST_TABLES = 20_000, 500_000  # in one catalog
MOST_UNREADABLE = 10  # tables in a row that cannot be read: then it is not the tables
NO_ANSWER = frozenset(
    {"ConnectionError", "Timeout", "TimeoutError", "OperationalError", "InterfaceError", "TTransportException"}
)
AWAY = 15.0  # seconds for which a catalog that did not answer is not asked again
_ONE = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)
_ALL = "SELECT * FROM iceberg_tables WHERE catalog_name = :catalog ORDER BY table_namespace, table_name"


class CatalogStorages(Storages):
    """Files of a catalog's tables, opened with the catalog's own properties under Iceberg's own names."""

    def _connect(self, scheme: str, authority: str) -> tuple[Storage, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        with storage_errors(f"{scheme}://{authority}"):
            filesystem = PyArrowFileIO(dict(self._properties)).fs_by_scheme(scheme, authority)
        is_bucket = scheme not in ("hdfs", "viewfs")
        return ArrowStorage(filesystem), authority if is_bucket else ""


@lru_cache(maxsize=256)
def storages_of(properties: frozenset[tuple[str, str]], bounds: frozenset[tuple[str, str]]) -> Storages:
    """The same for the same settings: a client of a store is expensive to make."""
    return CatalogStorages({**{key: str(value) for key, value in properties}, **dict(bounds)})


class Catalogs:
    """Asks catalogs; what connecting to them costs is paid once."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}
        self._locks: dict[str, Lock] = defaultdict(Lock)  # one for each: a catalog that hangs stops no other
        self._outages = Outages()
        self._bounds: frozenset[tuple[str, str]] = frozenset()

    def open(self, properties: Mapping[str, str]) -> None:
        """The warehouses bound what is read, whatever properties a catalog has."""
        self._bounds = frozenset((key, value) for key, value in properties.items() if key == WITHIN)

    def locate(self, reference: TableReference) -> tuple[str, Storages]:
        """Where the table's metadata is, and how to read it.

        A REST catalog hands out settings with each table: its own endpoint, or credentials that count for this table
        and for a time. So they are asked for at each call.
        """
        catalog = reference.catalog
        assert catalog is not None
        if catalog.type == JDBC:
            with self._outages.watched(catalog.name):
                database = self._database(catalog)
                metadata = metadata_in_database(database, catalog.name, reference.db_name, reference.table_name)
            return metadata, self.storages(catalog)
        table = self._load(catalog, (*reference.db_name.split("."), reference.table_name))
        return str(table.metadata_location), storages_of(frozenset(table.io.properties.items()), self._bounds)

    def storages(self, catalog: Catalog) -> Storages:
        properties = {**catalog.reader_properties, **dict(self._bounds)}
        made: Storages = self._once(f"storages of {catalog.name}", lambda: CatalogStorages(properties))
        return made

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        if catalog.type == HADOOP:
            return self._folders_of(catalog)
        return self._rows_of(catalog) if catalog.type == JDBC else self._tables_of(catalog)

    def _folders_of(self, catalog: Catalog) -> Iterator[TableReference]:
        if not catalog.warehouse:
            raise Invalid(f"the catalog {catalog.name} is of type hadoop and has no warehouse")
        root = normalise(catalog.warehouse)
        storage, path = self.storages(catalog).of(root)
        for names in walk(storage, path, ()):
            location = "/".join([root, *names])
            yield TableReference(location=location, catalog=catalog, db_name=".".join(names[:-1]), table_name=names[-1])

    def _rows_of(self, catalog: Catalog) -> Iterator[TableReference]:
        with self._outages.watched(catalog.name):
            rows = list(tables_in_database(self._database(catalog), catalog.name))

        def location_of(metadata: str) -> Callable[[], str]:
            return lambda: str(read_metadata(self.storages(catalog), metadata)["location"])

        return readable(catalog, (((namespace, name), location_of(metadata)) for namespace, name, metadata in rows))

    def _tables_of(self, catalog: Catalog) -> Iterator[TableReference]:
        def location_of(identifier: tuple[str, ...]) -> Callable[[], str]:
            return lambda: str(self._load(catalog, identifier).location())

        identifiers = self._identifiers(catalog)
        return readable(catalog, (((".".join(one[:-1]), one[-1]), location_of(one)) for one in identifiers))

    def _identifiers(self, catalog: Catalog) -> list[tuple[str, ...]]:
        with self._outages.watched(catalog.name), storage_errors(catalog.name):
            opened, found = self._connect(catalog), list[tuple[str, ...]]()
            for namespace in namespaces(opened):
                found += opened.list_tables(namespace)
                if len(found) > MOST_TABLES:
                    raise Invalid(
                        f"the catalog {catalog.name} has more than {MOST_TABLES} tables, which are not listed"
                    )
            return found

    def _load(self, catalog: Catalog, identifier: tuple[str, ...]) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            with self._outages.watched(catalog.name), storage_errors(catalog.name):
                return self._connect(catalog).load_table(identifier)
        except NoSuchTableError as error:
            raise NotInCatalog(f"{'.'.join(identifier)} is not in the catalog {catalog.name}") from error

    def _connect(self, catalog: Catalog) -> Any:
        if catalog.type not in THROUGH_PYICEBERG:
            known = ", ".join(sorted({HADOOP, JDBC, *THROUGH_PYICEBERG}))
            raise Invalid(f"the catalog {catalog.name} is of the type {catalog.type!r}; known are {known}")
        from pyiceberg.exceptions import NotInstalledError

        try:
            return self._once(catalog.name, lambda: open_catalog(catalog, dict(self._bounds)))
        except (NotInstalledError, ImportError) as error:
            raise Invalid(f"the catalog {catalog.name} needs pyiceberg[{catalog.type}]: {error}") from error

    def _database(self, catalog: Catalog) -> Any:
        return self._once(catalog.name, lambda: open_database(catalog.reader_properties))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        # Watched inside of the lock: whoever waited for it does not wait for the same silence again.
        with self._locks[name], self._outages.watched(name):
            if name not in self._open:
                self._open[name] = make()
            return self._open[name]


class NotInCatalog(Invalid):
    """The catalog has no such table, or not any more."""


def readable(catalog: Catalog, listed: Iterator[tuple[tuple[str, str], Callable[[], str]]]) -> Iterator[TableReference]:
    """Each table with its location; one that cannot be read has the reason instead, and stops no other."""
    unreadable = 0
    for (namespace, name), locate in listed:
        try:
            location, problem = normalise(locate()), ""
        except (FileNotFoundError, NotInCatalog):
            continue  # dropped meanwhile, or purged without the catalog's knowledge
        except CatalogAway:
            raise
        except OutsideWarehouses as error:
            yield TableReference(
                location="", catalog=catalog, db_name=namespace, table_name=name, problem=f"it cannot be read: {error}"
            )
            continue
        except (OSError, Invalid, ValueError, LookupError, TypeError) as error:
            location, problem = "", f"it cannot be read: {type(error).__name__}: {error}"
            if unreadable >= MOST_UNREADABLE:
                raise OSError(f"no table of {catalog.name} can be read, {namespace}.{name} neither: {error}") from error
        unreadable = unreadable + 1 if problem else 0
        yield TableReference(location=location, catalog=catalog, db_name=namespace, table_name=name, problem=problem)


def open_catalog(catalog: Catalog, bounds: Mapping[str, str]) -> Any:
    from pyiceberg.catalog import load_catalog

    from lakehand.formats.iceberg.rest_client import ARROW, BoundedRestCatalog, ignore_table_properties

    properties = {**catalog.reader_properties, **ARROW, **bounds, "type": catalog.type}
    if catalog.type == REST:
        return BoundedRestCatalog(catalog.name, **properties)
    return ignore_table_properties(load_catalog(catalog.name, **properties))


def walk(storage: Storage, path: str, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Names from the warehouse down to each table. A table holds no tables."""
    folders = sorted(storage.folders(path))
    if names and FOLDER in folders and has_metadata(storage.names(f"{path}/{FOLDER}")):
        yield names
    elif len(names) <= DEEPEST:
        for folder in folders:
            yield from walk(storage, f"{path}/{folder}", (*names, folder))


def namespaces(opened: Any) -> Iterator[tuple[str, ...]]:
    """Each once. A catalog that does not know ``parent`` lists the same ones again: only those below count."""
    can_be_nested = type(opened).__name__ == "BoundedRestCatalog"
    seen, waiting = set[tuple[str, ...]](), [()]
    while waiting:
        above = waiting.pop()
        below = {one for one in opened.list_namespaces(above) if one[:-1] == above} - seen
        seen |= below
        if len(seen) > MOST_NAMESPACES:
            raise Invalid(f"the catalog has more than {MOST_NAMESPACES} namespaces, which are not listed")
        yield from sorted(below)
        waiting += sorted((one for one in below if can_be_nested and len(one) < DEEPEST), reverse=True)


@contextmanager
def storage_errors(name: str) -> Iterator[None]:
    """Whatever a library makes of a network that fails is an OSError to us; what is not there stays itself."""
    from pyiceberg.exceptions import NoSuchTableError, NotInstalledError

    try:
        yield
    except (OSError, Invalid, NoSuchTableError, NotInstalledError, ImportError, GeneratorExit):
        raise
    except Exception as error:
        raise OSError(f"{name} cannot be asked: {type(error).__name__}: {error}") from error


class Outages:
    """Catalogs that did not answer. For some seconds nobody waits for them again: waiting would take the threads that
    other tables need."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    @contextmanager
    def watched(self, name: str) -> Iterator[None]:
        until, why = self._known.get(name, (0.0, ""))
        if self._clock() < until:
            raise CatalogAway(f"the catalog {name} did not answer a moment ago: {why}")
        try:
            yield
        except CatalogAway:
            raise
        except Exception as error:
            if is_away(error):
                self._known[name] = (self._clock() + AWAY, f"{type(error).__name__}: {error}")
                raise CatalogAway(f"the catalog {name} does not answer: {error}") from error
            raise


class CatalogAway(OSError):
    """The catalog itself cannot be reached, whatever table was asked for."""


def is_away(error: BaseException | None) -> bool:
    """Whether nobody answered, in the words of requests, SQLAlchemy, Thrift or Python."""
    while error is not None:
        if {kind.__name__ for kind in type(error).__mro__} & NO_ANSWER:
            return True
        error = error.__cause__
    return False


def metadata_in_database(database: Any, catalog: str, namespace: str, name: str) -> str:
    with select_rows(database, _ONE, catalog=catalog, namespace=namespace, name=name) as found:
        row = next(iter(found), None)
    if row is None or not row["metadata_location"]:
        raise Invalid(f"{namespace}.{name} is not in the catalog {catalog}")
    return str(row["metadata_location"])


def tables_in_database(database: Any, catalog: str) -> Iterator[tuple[str, str, str]]:
    """Namespace, name and metadata of each table; newer catalogs keep views in the same SQL table."""
    with select_rows(database, _ALL, catalog=catalog) as found:
        listed = [
            (str(row["table_namespace"]), str(row["table_name"]), str(row["metadata_location"]))
            for row in found
            if row.get("iceberg_type") in (None, "TABLE") and row["metadata_location"]
        ]
    yield from listed
