# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change by two questions about files, and its snapshot by one listing."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timezone
from functools import partial

from lakehand.formats.delta.log import FOLDER, Log, commit_path
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import Catalog, CommittedTable, Format, TableFormat, TableReference
from lakehand.storage import Storage, Storages, newest_after, tables_in_metastore

DELTA = Format("delta")
MOST_KNOWN = 100_000


class DeltaFormat(TableFormat):
    """Reads Delta tables with classic, multi-part and V2 checkpoints."""

    format = DELTA

    def __init__(self) -> None:
        self._storages = Storages({})
        self._newest: dict[str, int] = {}  # location → the newest version that we saw

    def open(self, properties: Mapping[str, str]) -> None:
        self._storages = Storages(properties)

    def probe(self, reference: TableReference) -> str:
        """A log may have a hundred thousand files: a table that we know is asked for its next version instead."""
        storage, root = self._storages.of(reference.location)
        known = self._newest.get(reference.location)
        if known is not None:
            found = newest_after(storage, partial(commit_path, f"{root}/{FOLDER}"), known)
            if found is not None:
                self._newest[reference.location] = found[0]
                return token_of(*found)
        log = self._read_log(reference.location, storage, root)
        return token_of(log.newest, storage.sign(log.newest_path))

    def inspect(self, reference: TableReference) -> DeltaSnapshot:
        storage, root = self._storages.of(reference.location)
        log = self._read_log(reference.location, storage, root)
        token = token_of(log.newest, storage.sign(log.newest_path))
        return DeltaSnapshot(token=token, location=reference.location, read_at=datetime.now(timezone.utc), log=log)

    def recognise(self, location: str, names: Collection[str]) -> bool:
        return FOLDER in names

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        return tables_in_metastore(catalog)

    def commit_of(self, path: str) -> CommittedTable | None:
        location, folder, name = path.rpartition(f"/{FOLDER}/")
        is_commit = len(name) == 25 and name.endswith(".json") and name[:20].isdecimal()
        return CommittedTable(location, str(int(name[:20]))) if folder and is_commit else None

    def _read_log(self, location: str, storage: Storage, root: str) -> Log:
        log = Log.read(storage, root, location)
        if len(self._newest) >= MOST_KNOWN:
            self._newest.clear()
        self._newest[location] = log.newest
        return log


def token_of(version: int, sign: str) -> str:
    """The version, and whether that commit is still the one that we saw: a table may be dropped and made anew."""
    return f"{version}/{sign}"
