# SPDX-License-Identifier: Apache-2.0
"""What is at a location: where its links lead, whether it is allowed, and which format its table has.

Links are resolved before a location is used, and one that leads out of the warehouses is refused. When an operation is
admitted, its boundary is drawn from what the links lead to, and from the inode of the folder.
"""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from lakehand.domain.errors import Invalid, LocationRefused
from lakehand.domain.locations import EXTRA_LOCATIONS, Boundary, Warehouses, is_under, normalise_prefix
from lakehand.domain.tables import Format
from lakehand.spi.formats import TableFormat
from lakehand.storage import Storages

CACHE_SECONDS = 2.0  # for the resolved parent folders of tables
Draw = Callable[[str, Sequence[str]], Boundary]
COMPANION = Format("iceberg")  # Delta, Hudi and Paimon can write its metadata next to their own


def path_guard(
    warehouses: Warehouses, own: Sequence[str] = (), resolver: "PathResolver | None" = None
) -> Callable[[str], None]:
    """A check for normalised locations. Object stores have no links; this machine's folders do.

    ``own`` are the real paths of Lakehand's own files.
    """
    real = tuple(os.path.realpath(p) for p in warehouses.prefixes if p.startswith("/"))
    resolver = resolver or PathResolver()

    def check(location: str) -> None:
        warehouses.admit(location)
        if not location.startswith("/"):
            return
        target = resolver.realpath(location)
        if not any(is_under(target, prefix) for prefix in real):
            raise LocationRefused(f"{location!r} leads to {target!r}, which is outside of the warehouses")
        refuse_own(location, target, own)

    return check


def refuse_own(location: str, target: str, own: Sequence[str]) -> None:
    """A job that deletes files of a table must never reach Lakehand's own files."""
    for path in own:
        if is_under(target, path) or is_under(path, target):
            raise LocationRefused(f"{location!r} cannot be a table: Lakehand keeps its own files in {path!r}")


def keep_apart(warehouses: Warehouses, own: Sequence[str]) -> None:
    """Refuse a warehouse that contains Lakehand's own files or lies among them."""
    for prefix in warehouses.prefixes:
        real = os.path.realpath(prefix) if prefix.startswith("/") else prefix
        for path in own:
            if is_under(path, real) or is_under(real, path):
                raise Invalid(
                    f"the warehouse {prefix!r} and {path!r}, where Lakehand keeps its own files, overlap: choose "
                    "another --home (or jars, or --database), or a warehouse with nothing but tables"
                )


class PathResolver:
    """Resolves links, with a short cache for parent folders of many tables."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._until = 0.0

    def realpath(self, location: str) -> str:
        """Object stores have no links."""
        if not location.startswith("/"):
            return location
        if time.monotonic() > self._until:
            self._known, self._until = {}, time.monotonic() + CACHE_SECONDS
        folder, _, name = location.rpartition("/")
        if not name or os.path.islink(location):  # noqa: PTH114  (a Path is slower)
            return os.path.realpath(location)
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = os.path.realpath(folder or "/")
        return f"{known}/{name}"


def warehouses_of(prefixes: list[str]) -> Warehouses:
    return Warehouses(prefixes=tuple(normalise_prefix(p) for p in prefixes))


def boundaries(warehouses: Warehouses, check_path: Callable[[str], None]) -> Draw:
    """A function of a table's location and extra locations, which raises when one is in no warehouse."""
    inside = tuple(real_location(prefix) for prefix in warehouses.prefixes)

    def draw(location: str, extra: Sequence[str]) -> Boundary:
        check_path(location)
        return Boundary(
            location=location,
            real=real_location(location),
            warehouses=inside,
            extra=tuple(extra_prefix(one, warehouses, check_path) for one in extra),
            folder=folder_at(location),
        )

    return draw


def extra_prefix(text: str, warehouses: Warehouses, check_path: Callable[[str], None]) -> str:
    try:
        location = warehouses.spell(text)
        check_path(location)
    except LocationRefused as error:
        raise LocationRefused(f"{EXTRA_LOCATIONS} names {text!r}, which is not allowed: {error}") from error
    return real_location(location)


def real_location(location: str) -> str:
    """With links resolved. Object stores have none."""
    return os.path.realpath(location) if location.startswith("/") else location


def folder_at(location: str) -> str:
    """Device and inode of a local folder: a replaced folder has others."""
    if not location.startswith("/"):
        return ""
    try:
        found = os.stat(location)  # noqa: PTH116 - a Path adds nothing here
    except OSError as error:
        raise LocationRefused(f"{location!r} cannot be read: {error.strerror}") from error
    return f"{found.st_dev}:{found.st_ino}"


def formats_at(formats: Mapping[Format, TableFormat], location: str, names: Collection[str]) -> list[Format]:
    """All formats that recognise the folder, the one that owns the table first."""
    found = [name for name, one in formats.items() if one.recognise(location, names)]
    return sorted(found, key=lambda name: (name == COMPANION, name))


def recogniser(
    formats: Mapping[Format, TableFormat], properties: Mapping[str, str], check_path: Callable[[str], None]
) -> Callable[[str], Format | None]:
    """A function that returns the format of the table at a location, or None if there is no known table."""
    storages = Storages(properties)

    def recognise(location: str) -> Format | None:
        check_path(location)
        try:
            storage, path = storages.of(location)
            files, folders = storage.contents(path)
        except OSError:
            return None
        return next(iter(formats_at(formats, location, [*files, *folders])), None)

    return recognise
