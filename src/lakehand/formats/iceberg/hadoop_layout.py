# SPDX-License-Identifier: Apache-2.0
"""The newest metadata file of a table in Hadoop layout in an object store, by at most two requests where we know it.

The next version is asked for under the name that it would have. The compression, and with it the name, may change, and
a table may be dropped and made anew: both change the hint, so that its sign is compared, too.
"""

import re
from threading import Lock
from typing import NamedTuple

from lakehand.formats.iceberg import metadata
from lakehand.storage import ABSENT, Storage

MOST_KNOWN = 100_000
_NUMBER = re.compile(r"\d+")


class Known(NamedTuple):
    name: str  # of the newest metadata file
    hint: str  # the sign of the hint at that time


class HadoopLayouts:
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
