# SPDX-License-Identifier: Apache-2.0
"""Resolves links before a location is used, and refuses one that leads out of the warehouses."""

import os
import time
from collections.abc import Callable, Sequence

from lakehand.domain.errors import Invalid, LocationRefused
from lakehand.domain.locations import Warehouses, is_under, normalise_prefix

CACHE_SECONDS = 2.0  # for the resolved parent folders of tables


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
