# SPDX-License-Identifier: Apache-2.0
"""Creates the boundary of an operation when it is admitted: the location with all links resolved, and its inode."""

import os
from collections.abc import Callable, Sequence

from lakehand.domain.boundaries import EXTRA_LOCATIONS, Boundary
from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Warehouses

Draw = Callable[[str, Sequence[str]], Boundary]


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
