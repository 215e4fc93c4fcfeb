# SPDX-License-Identifier: Apache-2.0
"""The manifests of a table, one per version: their names hold the versions, so that a probe costs one listing."""

import re
from datetime import datetime
from os import SEEK_END
from typing import NamedTuple

from lakehand.spi import Invalid
from lakehand.storage import Storage
from lakehand.storage.bounds import refuse_giants

FOLDER = "_versions"
_NAME = re.compile(r"(\d{1,20})\.manifest")
_LAST = 2**64 - 1


class Version(NamedTuple):
    number: int
    made_at: datetime  # when its manifest was written: never earlier than the commit


def version_of(name: str) -> int | None:
    """Older tables count up; newer ones down from the largest number, with 20 digits, so that the newest lists first.

    Other files, detached versions among them, are none.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return _LAST - int(found[1]) if len(found[1]) == 20 else int(found[1])


def newest(storage: Storage, root: str, location: str) -> tuple[int, str, str]:
    """The latest version, the path of its manifest, and the sign of change that it gives."""
    try:
        names = storage.names(f"{root}/{FOLDER}")
    except (FileNotFoundError, NotADirectoryError):
        raise Invalid(f"there is no Lance table at {location}: it has no folder {FOLDER}") from None
    named = {version: name for name in names if (version := version_of(name)) is not None}
    if not named:
        raise Invalid(f"{location} is not a Lance table: its folder {FOLDER} holds no manifest")
    version = max(named)
    path = f"{root}/{FOLDER}/{named[version]}"
    return version, path, token_of(version, storage.sign(path))


def token_of(version: int, sign: str) -> str:
    """The version, and whether its manifest is still the one that we saw: a table may be dropped and made anew."""
    return f"{version}:{sign}"


def path_like(path: str, version: int) -> str:
    """The manifest of another version, named as this one is."""
    folder, _, name = path.rpartition("/")
    number = f"{_LAST - version:020d}" if len(name) == len(f"{_LAST}.manifest") else str(version)
    return f"{folder}/{number}.manifest"


def check_readable(storage: Storage, root: str, path: str) -> None:
    """Lance's library opens files by itself and waits for pipes: refuse odd files and a giant manifest before it does.

    ``path``: the manifest that it will read first.
    """
    if odd := storage.odd_file(root):
        raise OSError(f"{odd}; Lakehand reads regular files only, and follows no link below a table")
    with storage.open(path) as file:
        refuse_giants(path, file.seek(0, SEEK_END))


def history(storage: Storage, root: str) -> tuple[Version, ...]:
    """All versions, oldest first."""
    found = ((version_of(entry.name), entry.modified) for entry in storage.entries(f"{root}/{FOLDER}"))
    versions = (Version(number=number, made_at=made_at) for number, made_at in found if number is not None)
    return tuple(sorted(versions, key=lambda version: version.number))
