# SPDX-License-Identifier: Apache-2.0
"""Reads what a Delta table holds and what its manifests list. Files are told by their unique names."""

from collections.abc import Iterator
from urllib.parse import unquote

from lakehand.storage import Storage, Storages

FOLDER = "_symlink_format_manifest"
FILE = "manifest"

Names = frozenset[str]


def newest_version(location: str) -> int:
    from deltalake import DeltaTable  # costs a tenth of a second, and a plugin must load in milliseconds
    from deltalake.exceptions import DeltaError

    try:
        return int(DeltaTable(location).version())
    except DeltaError as error:
        raise OSError(f"{location} cannot be read: {error}") from error


def live_files(location: str, version: int) -> Names:
    """The data files of one version of the table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return frozenset(map(name_of, DeltaTable(location, version=version).file_uris()))
    except DeltaError as error:
        raise OSError(f"version {version} of {location} cannot be read: {error}") from error


def named_files(location: str) -> Names:
    """The data files that the manifests name, over all partitions; none when there are no manifests."""
    storage, root = Storages({}).of(location)
    files = manifest_files(storage, f"{root}/{FOLDER}")
    lines = (line for file in files for line in storage.read(file).decode().splitlines())
    return frozenset(name_of(line) for line in lines if line.strip())


def manifest_files(storage: Storage, folder: str) -> Iterator[str]:
    """A table with partitions has a manifest in a folder for each."""
    try:
        names, folders = storage.names(folder), storage.folders(folder)
    except FileNotFoundError:
        return
    if FILE in names:
        yield f"{folder}/{FILE}"
    for name in folders:
        yield from manifest_files(storage, f"{folder}/{name}")


def name_of(path: str) -> str:
    return unquote(path.rstrip().rpartition("/")[2])
