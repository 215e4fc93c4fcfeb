# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change is the name of its metadata file, and its snapshot one read of that."""

import re
from collections.abc import Collection, Iterator, Mapping
from threading import Lock
from typing import NamedTuple

from lakehand.formats.iceberg import metadata
from lakehand.formats.iceberg.catalogs import Catalogs
from lakehand.formats.iceberg.manifests import ManifestCache
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Catalog, CommittedTable, Format, TableFormat, TableReference
from lakehand.storage import ABSENT, Storage, Storages

ICEBERG = Format("iceberg")
NEEDS_CATALOG = (
    "its metadata is kept by a catalog, and only the catalog can commit to it: name the catalog in the settings "
    "([catalogs.NAME]) and register the table by it"
)
MOST_KNOWN = 100_000  # tables in Hadoop layout whose newest metadata file is remembered
_NUMBER = re.compile(r"\d+")


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


class Known(NamedTuple):
    name: str  # of the newest metadata file
    hint: str  # the sign of the hint at that time


class HadoopLayouts:
    """The newest metadata file of a table in Hadoop layout in an object store, by at most two requests if we know it.

    The next version is asked for under the name that it would have. The compression, and with it the name, may change,
    and a table may be dropped and made anew: both change the hint, so that its sign is compared, too.
    """

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._lock = Lock()

    def current(self, storage: Storage, root: str, location: str) -> str:
        """The name of the newest metadata file."""
        folder = f"{root}/{metadata.FOLDER}"
        known = self._known.get(location)
        if known is not None:
            if storage.sign(f"{folder}/{following(known.name)}") != ABSENT:
                found = listed(storage, folder, known.name)
            elif storage.sign(f"{folder}/{metadata.HINT}") == known.hint:
                return known.name
            else:
                found = None
            if found is not None:
                return self._remember(location, found)
        hint = storage.sign(f"{folder}/{metadata.HINT}")  # before the name: a commit in between changes it once more
        name = metadata.current(storage, root, location)
        if hint == ABSENT or not metadata.is_versioned(name):
            return name
        return self._remember(location, Known(name, hint))

    def _remember(self, location: str, known: Known) -> str:
        with self._lock:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[location] = known
        return known.name


def following(name: str) -> str:
    """The name of the next version."""
    return _NUMBER.sub(lambda found: str(int(found[0]) + 1), name, count=1)


def listed(storage: Storage, folder: str, known: str) -> Known | None:
    """The newest version after a known one, and the hint's sign, by one listing; None: as Iceberg looks for it."""
    signs = {entry.name: entry.sign for entry in storage.entries(folder)}
    numbered = {number: name for name in signs if (number := metadata.version_of(name)) is not None}
    version = metadata.version_of(known)
    if version not in numbered or metadata.HINT not in signs:
        return None
    while version + 1 in numbered:
        version += 1
    return Known(numbered[version], signs[metadata.HINT])
