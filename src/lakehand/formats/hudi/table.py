# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change by one listing, and its snapshot by two reads."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

from lakehand.formats.hudi import properties
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.timeline import State, Timeline, parse_name
from lakehand.spi import Catalog, CommittedTable, Format, TableFormat, TableReference
from lakehand.storage import Storage, Storages, tables_in_metastore

HUDI = Format("hudi")


class HudiFormat(TableFormat):
    """Reads Hudi tables of timeline layouts 1 and 2."""

    format = HUDI

    def __init__(self) -> None:
        self._storages = Storages({})
        self._folders: dict[str, str] = {}  # location → its timeline's folder, once known

    def open(self, properties: Mapping[str, str]) -> None:
        self._storages = Storages(properties)

    def probe(self, reference: TableReference) -> str:
        storage, root = self._storages.of(reference.location)
        known = self._folders.get(reference.location)
        if known is not None:
            try:
                return token_of(storage.names(known), storage, root)
            except FileNotFoundError:
                self._folders.pop(reference.location, None)  # moved by an upgrade, or gone
        _, folder = self._read_properties(reference.location, storage, root)
        return token_of(storage.names(folder), storage, root)

    def recognise(self, location: str, names: Collection[str]) -> bool:
        return properties.FOLDER in names

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        return tables_in_metastore(catalog)

    def commit_of(self, path: str) -> CommittedTable | None:
        """Completed instants, and plans that were requested. Those of a metadata table are not the table's own."""
        location, folder, name = path.partition(f"/{properties.FOLDER}/")
        if not folder:
            return None
        step = parse_name(name.removeprefix(f"{properties.TIMELINE}/"))
        return None if step is None or step[2] is State.INFLIGHT else CommittedTable(location, step[0])

    def inspect(self, reference: TableReference) -> HudiSnapshot:
        storage, root = self._storages.of(reference.location)
        found, folder = self._read_properties(reference.location, storage, root)
        try:
            entries = storage.entries(folder)
        except FileNotFoundError:
            entries = []  # a table that was just created may not have the folder yet
        return HudiSnapshot(
            token=token_of((entry.name for entry in entries), storage, root),
            location=reference.location,
            properties=found,
            timeline=Timeline.of(entries),
            timeline_folder=folder,
            root=root,
            storage=storage,
        )

    def _read_properties(self, location: str, storage: Storage, root: str) -> tuple[Mapping[str, str], str]:
        """The properties, and the folder of the timeline."""
        found = properties.read_properties(storage, root, location)
        folder = f"{root}/{properties.FOLDER}"
        if properties.number(found, "hoodie.timeline.layout.version", 1) >= 2:
            folder = f"{folder}/{found.get('hoodie.timeline.path') or properties.TIMELINE}"
        self._folders[location] = folder
        return found, folder


def token_of(names: Iterable[str], storage: Storage, root: str) -> str:
    """Every step of the timeline has a file name of its own, so that a change always changes the names."""
    steps = sorted(name for name in names if name[:1].isdigit())
    change_token = storage.change_token(f"{root}/{properties.FOLDER}/{properties.FILE}")
    return hashlib.blake2b("\n".join([change_token, *steps]).encode(), digest_size=16).hexdigest()
