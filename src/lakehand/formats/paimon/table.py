# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change by two listings, and its snapshot by one more read."""

from collections.abc import Collection, Iterator, Mapping

from lakehand.formats.paimon import schema
from lakehand.formats.paimon.layout import SNAPSHOT, Layout
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Catalog, CommittedTable, Format, Invalid, TableFormat, TableReference
from lakehand.storage import Storages

PAIMON = Format("paimon")
SCHEMA = "schema"
DATABASE = ".db"
BRANCH = "/branch/branch-"


class PaimonFormat(TableFormat):
    """Reads Paimon tables of 0.5 to 0.9: snapshots in JSON, manifests in Avro."""

    format = PAIMON

    def __init__(self) -> None:
        self._storages = Storages({})

    def open(self, properties: Mapping[str, str]) -> None:
        self._storages = Storages(properties)

    def probe(self, reference: TableReference) -> str:
        layout = self._layout(reference.location)
        return token_of(schemas_of(layout, reference.location), layout.ids(SNAPSHOT))

    def inspect(self, reference: TableReference) -> PaimonSnapshot:
        layout = self._layout(reference.location)
        schemas = schemas_of(layout, reference.location)
        path = f"{layout.root}/{SCHEMA}/{SCHEMA}-{schemas[-1]}"
        found = schema.parse_schema(layout.storage.read(path), path)
        if (kind := found.options.get("manifest.format", "avro")) != "avro":
            raise Invalid(
                f"{reference.location} has manifests in {kind}; Lakehand reads those in avro, Paimon's default"
            )
        ids = layout.ids(SNAPSHOT)
        return PaimonSnapshot(
            token=token_of(schemas, ids), location=reference.location, schema=found, ids=tuple(ids), layout=layout
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
        """A filesystem catalog is its folders: ``DATABASE.db/TABLE``."""
        if catalog.type != "filesystem":
            raise Invalid(f"catalog {catalog.name} has type {catalog.type!r}: of Paimon's, filesystem is served")
        warehouse = catalog.warehouse.rstrip("/")
        storage, root = Storages(catalog.reader_properties).of(warehouse)
        for database in sorted(name for name in storage.folders(root) if name.endswith(DATABASE)):
            for name in sorted(storage.folders(f"{root}/{database}")):
                if Layout(storage=storage, root=f"{root}/{database}/{name}").ids(SCHEMA):
                    yield TableReference(
                        location=f"{warehouse}/{database}/{name}", catalog=catalog,
                        db_name=database.removesuffix(DATABASE), table_name=name,
                    )  # fmt: skip

    def _layout(self, location: str) -> Layout:
        storage, root = self._storages.of(location)
        return Layout(storage=storage, root=root.rstrip("/"))


def schemas_of(layout: Layout, location: str) -> list[int]:
    found = layout.ids(SCHEMA)
    if not found:
        raise Invalid(f"{location} is no Paimon table: it has no schema")
    return found


def token_of(schemas: list[int], ids: list[int]) -> str:
    """Every commit adds a snapshot, expiry takes some away, and a change of options is a new schema."""
    return f"{schemas[-1]}:{ids[0]}-{ids[-1]}:{len(ids)}" if ids else f"{schemas[-1]}:empty"
