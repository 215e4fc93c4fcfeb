# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change is the name of its metadata file, and its snapshot one read of that."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from lakehand.formats.iceberg import metadata
from lakehand.formats.iceberg.catalogs import Catalogs
from lakehand.formats.iceberg.hadoop_layout import HadoopLayouts
from lakehand.formats.iceberg.manifests import ManifestCache
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Catalog, CommittedTable, Format, TableFormat, TableReference
from lakehand.storage import Storages

ICEBERG = Format("iceberg")
NEEDS_CATALOG = (
    "its metadata is kept by a catalog, and only the catalog can commit to it: name the catalog in the settings "
    "([catalogs.NAME]) and register the table by it"
)


class MetadataLocation(NamedTuple):
    """Where a table's metadata is now."""

    metadata: str
    token: str
    storages: Storages
    why_read_only: str = ""


class IcebergFormat(TableFormat):
    """Reads Iceberg tables of the format versions 1 to 3: in Hadoop layout by path, all others by their catalog."""

    format = ICEBERG

    def __init__(self) -> None:
        self._storages = Storages({})
        self._catalogs = Catalogs()
        self._cache = ManifestCache()
        self._layouts = HadoopLayouts()

    def open(self, properties: Mapping[str, str]) -> None:
        self._storages = Storages(properties)
        self._catalogs.open(properties)

    def probe(self, reference: TableReference) -> str:
        return self._locate(reference).token

    def inspect(self, reference: TableReference) -> IcebergSnapshot:
        found = self._locate(reference)
        return IcebergSnapshot(
            token=found.token,
            location=reference.location,
            metadata=metadata.read_metadata(found.storages, found.metadata),
            metadata_location=found.metadata,
            why_read_only=found.why_read_only,
            storages=found.storages,
            cache=self._cache,
        )

    def commit_of(self, path: str) -> CommittedTable | None:
        location, folder, name = path.rpartition(f"/{metadata.FOLDER}/")
        version = metadata.number_of(name) if folder else None
        return None if version is None else CommittedTable(location, str(version))

    def recognise(self, location: str, names: Collection[str]) -> bool:
        if metadata.FOLDER not in names:
            return False
        storage, root = self._storages.of(location)
        return metadata.has_metadata(storage.names(f"{root}/{metadata.FOLDER}"))

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        return self._catalogs.tables(catalog)

    def _locate(self, reference: TableReference) -> MetadataLocation:
        if reference.catalog is None:
            return self._by_path(self._storages, reference.location, is_own=False)
        if reference.catalog.type == "hadoop":
            return self._by_path(self._catalogs.storages(reference.catalog), reference.location, is_own=True)
        location, storages = self._catalogs.locate(reference)
        return MetadataLocation(metadata=location, token=location.rpartition("/")[2], storages=storages)

    def _by_path(self, storages: Storages, location: str, *, is_own: bool) -> MetadataLocation:
        """``is_own``: the table belongs to a catalog of the settings."""
        storage, root = storages.of(location)
        newest = metadata.current if storage.is_local else self._layouts.current
        name = newest(storage, root, location)
        change_token = storage.change_token(f"{root}/{metadata.FOLDER}/{name}")
        return MetadataLocation(
            metadata=f"{location}/{metadata.FOLDER}/{name}",
            token=f"{name}:{change_token}" if change_token else name,
            storages=storages,
            why_read_only="" if is_own or metadata.is_versioned(name) else NEEDS_CATALOG,
        )
