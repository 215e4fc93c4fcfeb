# SPDX-License-Identifier: Apache-2.0
"""Tables that a Hive metastore knows, with their locations, for formats whose tables are served by location."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from lakehand.domain.errors import Invalid
from lakehand.domain.locations import normalise
from lakehand.domain.tables import Catalog, TableReference

TYPE = "hive"
PORT = 9083
TIME_LIMIT = 20_000  # milliseconds for one answer
BATCH = 200  # tables that are asked for at once
PROVIDER = "spark.sql.sources.provider"  # what Spark notes with each of its tables

# Packages of the classes that Hive reads a format with.
READERS = {"hudi": ("org.apache.hudi.", "com.uber.hoodie."), "paimon": ("org.apache.paimon.",)}


def tables_in_metastore(catalog: Catalog) -> Iterator[TableReference]:
    """Those of the catalog's format. Raises OSError when the metastore cannot be asked."""
    if catalog.type != TYPE:
        raise Invalid(f"catalog {catalog.name} has type {catalog.type!r}: of {catalog.format}'s, {TYPE} is served")
    with metastore_errors(catalog.name), connected(catalog) as client:
        found = [
            reference_of(table, catalog)
            for database in client.get_all_databases()
            for table in tables_of(client, database)
            if format_of(table) == catalog.format
        ]
    yield from found


def reference_of(table: Any, catalog: Catalog) -> TableReference:
    try:
        location, problem = normalise(location_of(table)), ""
    except Invalid as error:
        location, problem = "", f"it cannot be read: {error}"
    return TableReference(
        location=location, catalog=catalog, db_name=table.dbName, table_name=table.tableName, problem=problem
    )


def tables_of(client: Any, database: str) -> Iterator[Any]:
    names = client.get_all_tables(database)
    for start in range(0, len(names), BATCH):
        yield from client.get_table_objects_by_name(database, names[start : start + BATCH])


def format_of(table: Any) -> str:
    """By Spark's note, else by the class that Hive reads it with."""
    if provider := (table.parameters or {}).get(PROVIDER, ""):
        return str(provider).lower()
    reader = str(table.sd.inputFormat or "") if table.sd else ""
    return next((name for name, packages in READERS.items() if reader.startswith(packages)), "")


def location_of(table: Any) -> str:
    """Spark keeps the path of an external table beside a placeholder."""
    noted = (table.sd.serdeInfo.parameters or {}).get("path") if table.sd.serdeInfo else None
    location = str(noted or table.sd.location)
    return location.removeprefix("file:") if location.startswith("file:/") else location


@contextmanager
def connected(catalog: Catalog) -> Iterator[Any]:
    try:
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol import TBinaryProtocol
        from thrift.transport import TSocket, TTransport
    except ImportError as error:
        raise Invalid(f"the catalog {catalog.name} needs pyiceberg[hive]: {error}") from error
    address = urlsplit(catalog.reader_properties.get("uri", ""))
    if address.scheme != "thrift" or not address.hostname:
        raise Invalid(f"the catalog {catalog.name} needs a uri such as thrift://host:{PORT}")
    socket = TSocket.TSocket(address.hostname, address.port or PORT)
    socket.setTimeout(TIME_LIMIT)
    transport = TTransport.TBufferedTransport(socket)
    transport.open()
    try:
        yield Client(TBinaryProtocol.TBinaryProtocol(transport))
    finally:
        transport.close()


@contextmanager
def metastore_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, Invalid, GeneratorExit):
        raise
    except Exception as error:
        raise OSError(f"the catalog {name} cannot be asked: {type(error).__name__}: {error}") from error
