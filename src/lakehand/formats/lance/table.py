# SPDX-License-Identifier: Apache-2.0
"""The format plugin: a table's sign of change by one listing, its health by one read of the latest manifest."""

import os
import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from lakehand.formats.lance import manifests
from lakehand.formats.lance.snapshot import LanceSnapshot
from lakehand.spi import CommittedTable, Format, TableFormat, TableReference
from lakehand.storage import Storages, newest_after
from lakehand.storage.object_stores import lance_options

LANCE = Format("lance")
MOST_KNOWN = 100_000
STORAGE = "lance.storage."  # properties of the plugin with this prefix go to Lance's storage client
_ALIAS = re.compile(r"s3[an]://")


class LanceFormat(TableFormat):
    """Reads Lance tables with manifests of both namings."""

    format = LANCE

    def __init__(self) -> None:
        self._storages = Storages({})
        self._properties: Mapping[str, str] = {}
        self._newest: dict[str, tuple[int, str]] = {}  # location → the newest version that we saw, and its manifest

    def open(self, properties: Mapping[str, str]) -> None:
        self._storages = Storages(properties)
        self._properties = properties

    def probe(self, reference: TableReference) -> str:
        """A table in an object store that we know is asked for its next version: that costs less than a listing."""
        storage, root = self._storages.of(reference.location)
        known = self._newest.get(reference.location)
        if known is not None and not storage.is_local:
            found = newest_after(storage, partial(manifests.path_like, known[1]), known[0])
            if found is not None:
                self._remember(reference.location, found[0], manifests.path_like(known[1], found[0]))
                return manifests.token_of(*found)
        version, path, token = manifests.newest(storage, root, reference.location)
        self._remember(reference.location, version, path)
        return token

    def _remember(self, location: str, version: int, path: str) -> None:
        if len(self._newest) >= MOST_KNOWN:
            self._newest.clear()
        self._newest[location] = (version, path)

    def recognise(self, location: str, names: Collection[str]) -> bool:
        return manifests.FOLDER in names

    def commit_of(self, path: str) -> CommittedTable | None:
        location, folder, name = path.rpartition(f"/{manifests.FOLDER}/")
        version = manifests.version_of(name) if folder else None
        return None if version is None else CommittedTable(location, str(version))

    def inspect(self, reference: TableReference) -> LanceSnapshot:
        storage, root = self._storages.of(reference.location)
        version, path, token = manifests.newest(storage, root, reference.location)
        self._remember(reference.location, version, path)
        manifests.check_readable(storage, root, path)
        dataset = open_dataset(reference.location, version, storage_options(self._properties, reference.location))
        self._check_bases(dataset)
        return LanceSnapshot(
            token=token, location=reference.location, version=version, dataset=dataset, root=root, storage=storage
        )

    def _check_bases(self, dataset: Any) -> None:
        """A manifest may name further folders, whose files Lance's library opens by itself."""
        boundary = self._storages.boundary
        if boundary is not None:
            for base in dataset.base_paths().values():
                boundary.check(f"{base.path.rstrip('/')}/data")


def open_dataset(location: str, version: int, options: Mapping[str, str]) -> Any:
    """A version of the table. Whatever fails is an OSError."""
    os.environ.setdefault("LANCE_LOG", "error")  # its warnings would break into a listing
    import lance  # costs 200 ms, and nobody who has no Lance table pays for it

    try:
        return lance.dataset(_ALIAS.sub("s3://", location), version=version, storage_options=dict(options) or None)
    except ValueError as error:
        raise OSError(f"{location} cannot be opened: {error}") from error


def storage_options(properties: Mapping[str, str], location: str) -> dict[str, str]:
    own = {key.removeprefix(STORAGE): value for key, value in properties.items() if key.startswith(STORAGE)}
    return {**lance_options(properties, location), **own}
