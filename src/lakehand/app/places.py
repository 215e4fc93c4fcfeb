# SPDX-License-Identifier: Apache-2.0
"""Follows links before a place is touched: a folder that only looks as if it were in a warehouse is refused."""

import os
import time
from collections.abc import Callable

from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Warehouses, is_under, normalise

REMEMBERED = 2.0  # seconds for which the links above a table are not followed again


def place_check(warehouses: Warehouses) -> Callable[[str], None]:
    """A check for normalised locations. Object stores have no links; this machine's folders do."""
    real = tuple(os.path.realpath(p) for p in warehouses.prefixes if p.startswith("/"))
    folders = Folders()

    def check(location: str) -> None:
        warehouses.admit(location)
        if not location.startswith("/"):
            return
        target = folders.realpath(location)
        if not any(is_under(target, prefix) for prefix in real):
            raise LocationRefused(f"{location!r} leads to {target!r}, which is outside of the warehouses")

    return check


class Folders:
    """Follows links, and remembers for a moment where the folders lead that hold many tables."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._until = 0.0

    def realpath(self, location: str) -> str:
        if time.monotonic() > self._until:
            self._known, self._until = {}, time.monotonic() + REMEMBERED
        folder, _, name = location.rpartition("/")
        if not name or os.path.islink(location):  # noqa: PTH114  (a Path costs more than the look)
            return os.path.realpath(location)
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = os.path.realpath(folder or "/")
        return f"{known}/{name}"


def warehouses_of(prefixes: list[str]) -> Warehouses:
    return Warehouses(prefixes=tuple(normalise(p) for p in prefixes))
