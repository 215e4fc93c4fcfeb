# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change by two listings, and its snapshot by one more read.

Catalogs are folders of a warehouse, rows of a database, or entries of a Hive metastore.
"""

from collections.abc import Collection, Iterator, Mapping

from lakehand.formats.paimon import schema
from lakehand.formats.paimon.layout import SNAPSHOT, Layout
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Catalog, CommittedTable, Format, Invalid, TableFormat, TableReference
from lakehand.storage import ABSENT, Storages, open_database, select_rows, tables_in_metastore

PAIMON = Format("paimon")
MOST_KNOWN = 100_000
BRANCH = "/branch/branch-"
SCHEMA = "schema"
DATABASE = ".db"
KEY, DEFAULT_KEY = "catalog-key", "jdbc"  # by which several catalogs share one database
_ALL = (
    "SELECT database_name, table_name FROM paimon_tables WHERE catalog_key = :catalog "
    "ORDER BY database_name, table_name"
)


class PaimonFormat(TableFormat):
    """Reads Paimon tables of 0.5 to 0.9: snapshots in JSON, manifests in Avro."""

    format = PAIMON

    def __init__(self) -> None:
        self._storages = Storages({})
        self._schemas: dict[str, int] = {}  # location → the newest schema that we saw

    def open(self, properties: Mapping[str, str]) -> None:
        self._storages = Storages(properties)

    def probe(self, reference: TableReference) -> str:
        """By a listing, and the question for the next schema: a schema changes rarely, and that costs less."""
        layout = self._layout(reference.location)
        known = self._schemas.get(reference.location)
        ids = layout.ids(SNAPSHOT)
        if known is None or layout.storage.is_local or layout.sign(f"{SCHEMA}/{SCHEMA}-{known + 1}") != ABSENT:
            known = self._read_schemas(layout, reference.location)[-1]
        return token_of(known, ids)

    def inspect(self, reference: TableReference) -> PaimonSnapshot:
        layout = self._layout(reference.location)
        schemas = self._read_schemas(layout, reference.location)
        path = f"{layout.root}/{SCHEMA}/{SCHEMA}-{schemas[-1]}"
        found = schema.parse_schema(layout.storage.read(path), path)
        if (kind := found.options.get("manifest.format", "avro")) != "avro":
            raise Invalid(
                f"{reference.location} has manifests in {kind}; Lakehand reads those in avro, Paimon's default"
            )
        ids = layout.ids(SNAPSHOT)
        return PaimonSnapshot(
            token=token_of(schemas[-1], ids), location=reference.location, schema=found, ids=tuple(ids), layout=layout
        )

    def commit_of(self, path: str) -> CommittedTable | None:
        """Snapshots of the table itself: a branch has its own, and is not maintained."""
        location, folder, name = path.rpartition(f"/{SNAPSHOT}/")
        number = name.removeprefix(f"{SNAPSHOT}-")
        is_commit = number != name and number.isdecimal() and BRANCH not in location
        return CommittedTable(location, str(int(number))) if folder and is_commit else None

    def recognise(self, location: str, names: Collection[str]) -> bool:
        if SCHEMA not in names:
            return False
        try:
            return bool(self._layout(location).ids(SCHEMA))
        except OSError:
            return False

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        return tables_in(catalog)

    def _read_schemas(self, layout: Layout, location: str) -> list[int]:
        found = layout.ids(SCHEMA)
        if not found:
            raise Invalid(f"{location} is not a Paimon table: it has no schema")
        if len(self._schemas) >= MOST_KNOWN:
            self._schemas.clear()
        self._schemas[location] = found[-1]
        return found

    def _layout(self, location: str) -> Layout:
        storage, root = self._storages.of(location)
        return Layout(storage=storage, root=root.rstrip("/"))


def token_of(schema: int, ids: list[int]) -> str:
    """Every commit adds a snapshot, expiry takes some away, and a change of options is a new schema."""
    return f"{schema}:{ids[0]}-{ids[-1]}:{len(ids)}" if ids else f"{schema}:empty"


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
