# SPDX-License-Identifier: Apache-2.0
"""The tables of Paimon's catalogs: folders of a warehouse, rows of a database, or entries of a Hive metastore."""

from collections.abc import Iterator

from lakehand.formats.paimon.layout import Layout
from lakehand.spi import Catalog, Invalid, TableReference
from lakehand.storage import Storages, open_database, select_rows, tables_in_metastore

SCHEMA = "schema"
DATABASE = ".db"
KEY, DEFAULT_KEY = "catalog-key", "jdbc"  # by which several catalogs share one database
_ALL = (
    "SELECT database_name, table_name FROM paimon_tables WHERE catalog_key = :catalog "
    "ORDER BY database_name, table_name"
)


def tables_in(catalog: Catalog) -> Iterator[TableReference]:
    if catalog.type == "filesystem":
        yield from tables_in_folders(catalog)
    elif catalog.type == "jdbc":
        yield from tables_in_database(catalog)
    elif catalog.type == "hive":
        yield from tables_in_metastore(catalog)
    else:
        served = "filesystem, jdbc and hive are served"
        raise Invalid(f"catalog {catalog.name} has type {catalog.type!r}: of Paimon's, {served}")


def tables_in_folders(catalog: Catalog) -> Iterator[TableReference]:
    """``DATABASE.db/TABLE``."""
    storage, root = Storages(catalog.reader_properties).of(catalog.warehouse.rstrip("/"))
    for database in sorted(name for name in storage.folders(root) if name.endswith(DATABASE)):
        for name in sorted(storage.folders(f"{root}/{database}")):
            if Layout(storage=storage, root=f"{root}/{database}/{name}").ids(SCHEMA):
                yield reference_of(catalog, database.removesuffix(DATABASE), name)


def tables_in_database(catalog: Catalog) -> Iterator[TableReference]:
    """It names the tables. They are where a filesystem catalog has them."""
    key = dict(catalog.engine_properties).get(KEY, DEFAULT_KEY)
    database = open_database(catalog.reader_properties)
    try:
        with select_rows(database, _ALL, catalog=key) as found:
            listed = [(str(row["database_name"]), str(row["table_name"])) for row in found]
    finally:
        database.dispose()
    for namespace, name in listed:
        yield reference_of(catalog, namespace, name)


def reference_of(catalog: Catalog, database: str, name: str) -> TableReference:
    location = f"{catalog.warehouse.rstrip('/')}/{database}{DATABASE}/{name}"
    return TableReference(location=location, catalog=catalog, db_name=database, table_name=name)
