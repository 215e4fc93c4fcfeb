# SPDX-License-Identifier: Apache-2.0
"""Catalogs of the settings: where each table's metadata is now, and which tables there are.

A JDBC catalog is one SQL table, which is read directly, at the address that Spark has. REST, Hive and Glue catalogs
are read through pyiceberg.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from lakehand.domain.locations import normalise
from lakehand.formats.iceberg.metadata import FOLDER, has_metadata, read_metadata
from lakehand.spi import Catalog, Invalid, TableReference
from lakehand.storage import ArrowStorage, Storage, Storages

HADOOP, JDBC = "hadoop", "jdbc"
THROUGH_PYICEBERG = frozenset({"rest", "hive", "glue"})
DEEPEST = 8  # levels of namespaces
ARROW = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
PREFIX = "jdbc:"
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
CREDENTIALS = ("user", "password")
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


class Catalogs:
    """Asks catalogs; what connecting to them costs is paid once."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}
        self._lock = Lock()

    def metadata_location(self, reference: TableReference) -> str:
        catalog = reference.catalog
        assert catalog is not None
        if catalog.type == JDBC:
            database = self._database(catalog)
            return metadata_in_database(database, catalog.name, reference.db_name, reference.table_name)
        return str(self._load(catalog, (*reference.db_name.split("."), reference.table_name)).metadata_location)

    def storages(self, catalog: Catalog) -> Storages:
        made: Storages = self._once(f"storages of {catalog.name}", lambda: CatalogStorages(catalog.reader_properties))
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
        for namespace, name, metadata in tables_in_database(self._database(catalog), catalog.name):
            try:
                location = read_metadata(self.storages(catalog), metadata)["location"]
            except FileNotFoundError:
                continue  # dropped meanwhile, or purged without the catalog's knowledge
            yield TableReference(location=normalise(location), catalog=catalog, db_name=namespace, table_name=name)

    def _tables_of(self, catalog: Catalog) -> Iterator[TableReference]:
        with storage_errors(catalog.name):
            opened = self._connect(catalog)
            for namespace in namespaces(opened, ()):
                for identifier in opened.list_tables(namespace):
                    table = self._load(catalog, identifier)
                    yield TableReference(
                        location=normalise(table.location()), catalog=catalog,
                        db_name=".".join(identifier[:-1]), table_name=identifier[-1],
                    )  # fmt: skip

    def _load(self, catalog: Catalog, identifier: tuple[str, ...]) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            with storage_errors(catalog.name):
                return self._connect(catalog).load_table(identifier)
        except NoSuchTableError as error:
            raise Invalid(f"{'.'.join(identifier)} is not in the catalog {catalog.name}") from error

    def _connect(self, catalog: Catalog) -> Any:
        if catalog.type not in THROUGH_PYICEBERG:
            known = ", ".join(sorted({HADOOP, JDBC, *THROUGH_PYICEBERG}))
            raise Invalid(f"the catalog {catalog.name} is of the type {catalog.type!r}; known are {known}")
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError

        properties = {**ARROW, **catalog.reader_properties, "type": catalog.type}
        try:
            return self._once(catalog.name, lambda: load_catalog(catalog.name, **properties))
        except (NotInstalledError, ImportError) as error:
            raise Invalid(f"the catalog {catalog.name} needs pyiceberg[{catalog.type}]: {error}") from error

    def _database(self, catalog: Catalog) -> Any:
        return self._once(catalog.name, lambda: connect(catalog.reader_properties))

    def _once(self, name: str, make: Any) -> Any:
        with self._lock:
            if name not in self._open:
                self._open[name] = make()
            return self._open[name]


def walk(storage: Storage, path: str, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Names from the warehouse down to each table. A table holds no tables."""
    folders = sorted(storage.folders(path))
    if names and FOLDER in folders and has_metadata(storage.names(f"{path}/{FOLDER}")):
        yield names
    elif len(names) <= DEEPEST:
        for folder in folders:
            yield from walk(storage, f"{path}/{folder}", (*names, folder))


def namespaces(opened: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    can_be_nested = type(opened).__name__ == "RestCatalog"
    for namespace in opened.list_namespaces(above):
        yield namespace
        if len(namespace) < DEEPEST and can_be_nested:
            yield from namespaces(opened, namespace)


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


def address(properties: Mapping[str, str]) -> Any:
    """A JDBC address as SQLAlchemy's; every other address is one of SQLAlchemy's already."""
    from sqlalchemy.engine import make_url

    uri = properties.get("uri", "")
    if not uri.startswith(PREFIX):
        return make_url(uri)
    kind, _, rest = uri.removeprefix(PREFIX).partition(":")
    if kind == "sqlite":
        return make_url(f"sqlite:///{rest.removeprefix('file:')}")
    if kind not in DRIVERS:
        raise Invalid(f"no driver is known for {PREFIX}{kind}; known are sqlite, {', '.join(DRIVERS)}")
    url = make_url(f"{DRIVERS[kind]}:{rest}")
    user, password = (properties.get(f"jdbc.{key}") or str(url.query.get(key, "")) for key in CREDENTIALS)
    url = url.difference_update_query(CREDENTIALS)
    return url.set(username=user or url.username, password=password or url.password)


def connect(properties: Mapping[str, str]) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    try:
        url = address(properties)
        if url.get_backend_name() == "sqlite":
            return create_engine(url, poolclass=NullPool)
        return create_engine(url, pool_pre_ping=True, pool_size=2)
    except ArgumentError:
        raise Invalid("the uri of the JDBC catalog cannot be read: jdbc:postgresql://host/db, for instance") from None


def metadata_in_database(database: Any, catalog: str, namespace: str, name: str) -> str:
    with select(database, _ONE, catalog=catalog, namespace=namespace, name=name) as found:
        row = next(iter(found), None)
    if row is None or not row["metadata_location"]:
        raise Invalid(f"{namespace}.{name} is not in the catalog {catalog}")
    return str(row["metadata_location"])


def tables_in_database(database: Any, catalog: str) -> Iterator[tuple[str, str, str]]:
    """Namespace, name and metadata of each table; newer catalogs keep views in the same SQL table."""
    with select(database, _ALL, catalog=catalog) as found:
        listed = [dict(row) for row in found]
    for row in listed:
        if row.get("iceberg_type") in (None, "TABLE") and row["metadata_location"]:
            yield row["table_namespace"], row["table_name"], row["metadata_location"]


@contextmanager
def select(database: Any, statement: str, **values: str) -> Iterator[Any]:
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with database.connect() as connection:
            yield connection.execute(text(statement), values).mappings()
    except SQLAlchemyError as error:
        raise OSError(f"the JDBC catalog cannot be asked: {type(error).__name__}") from error
