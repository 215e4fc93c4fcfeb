# SPDX-License-Identifier: Apache-2.0
"""A table's metadata file: where the newest one is in Hadoop layout, and how one is read.

In Hadoop layout the files of one folder are numbered, and a hint may lag behind the newest.
"""

import re
from typing import Any

from lakehand.formats.iceberg.commits import read_large_metadata
from lakehand.spi import Invalid
from lakehand.storage import IN_PROCESS, SMALL, Storage, Storages, TooLarge, gunzip, parse_json

PACKED = b"\x1f\x8b"
NEWEST = 3  # the newest format version that is known here and to the engine
FOLDER = "metadata"
HINT = "version-hint.text"
SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
_NUMBERED = re.compile(r"(\d+)-[0-9a-f-]{36}(\.gz)?\.metadata\.json(\.gz)?")


def current(storage: Storage, root: str, location: str) -> str:
    """The name of the newest metadata file, found as Iceberg finds it."""
    folder = f"{root}/{FOLDER}"
    try:
        version = int(storage.read(f"{folder}/{HINT}", limit=SMALL).decode().strip())
    except (FileNotFoundError, NotADirectoryError):
        return newest(storage, folder, location)
    except ValueError as error:
        raise OSError(f"{folder}/{HINT} is not a number: {error}") from error
    name = find_version(storage, folder, version)
    if name is None:
        return newest(storage, folder, location)
    while (following := find_version(storage, folder, version + 1)) is not None:
        version, name = version + 1, following
    return name


def find_version(storage: Storage, folder: str, version: int) -> str | None:
    return next((n for n in (f"v{version}{suffix}" for suffix in SUFFIXES) if storage.exists(f"{folder}/{n}")), None)


def newest(storage: Storage, folder: str, location: str) -> str:
    """Without a hint, the highest number counts: of a Hadoop table, or of one that a catalog keeps."""
    try:
        names = storage.names(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise Invalid(f"{location} is not an Iceberg table: it has no folder {FOLDER!r}") from None
    for shape in (_VERSION, _NUMBERED):
        found = [(int(match[1]), name) for name in names if (match := shape.fullmatch(name))]
        if found:
            return max(found)[1]
    raise Invalid(f"{location} is not an Iceberg table: {FOLDER!r} has no metadata file")


def number_of(name: str) -> int | None:
    """The number of a metadata file, in the layout of Hadoop or of a catalog; None for other files."""
    found = _VERSION.fullmatch(name) or _NUMBERED.fullmatch(name)
    return int(found[1]) if found else None


def version_of(name: str) -> int | None:
    """Of a metadata file in Hadoop layout; None for other files."""
    found = _VERSION.fullmatch(name)
    return int(found[1]) if found else None


def is_versioned(name: str) -> bool:
    """Whether a metadata file is of the Hadoop layout, which needs no catalog to be written."""
    return version_of(name) is not None


def has_metadata(names: list[str]) -> bool:
    return HINT in names or any(name.endswith(SUFFIXES) for name in names)


def parse_metadata(storage: Storage, path: str, location: str) -> Any:
    """A large file is parsed elsewhere, and only what decisions need of it is kept."""
    try:
        data = storage.read(path, limit=IN_PROCESS)
    except TooLarge:
        return read_large_metadata(storage, path, location)
    document = gunzip(data, location) if data.startswith(PACKED) else data
    return (
        parse_json(document, location) if len(document) <= IN_PROCESS else read_large_metadata(storage, path, location)
    )


def read_metadata(storages: Storages, location: str) -> dict[str, Any]:
    document = parse_metadata(*storages.of(location), location)
    if not isinstance(document, dict) or "format-version" not in document or "location" not in document:
        raise Invalid(f"{location} is not the metadata of an Iceberg table")
    return document
