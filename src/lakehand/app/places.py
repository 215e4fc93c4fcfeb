# SPDX-License-Identifier: Apache-2.0
"""Follows links before a place is touched: a folder that only looks as if it were in a warehouse is refused."""

import os
from collections.abc import Callable

from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Warehouses, is_under, normalise


def place_check(warehouses: Warehouses) -> Callable[[str], None]:
    """A check for normalised locations. Object stores have no links; this machine's folders do."""
    real = tuple(os.path.realpath(p) for p in warehouses.prefixes if p.startswith("/"))

    def check(location: str) -> None:
        warehouses.admit(location)
        if not location.startswith("/"):
            return
        target = os.path.realpath(location)
        if not any(is_under(target, prefix) for prefix in real):
            raise LocationRefused(f"{location!r} leads to {target!r}, which is outside of the warehouses")

    return check


def warehouses_of(prefixes: list[str]) -> Warehouses:
    return Warehouses(prefixes=tuple(normalise(p) for p in prefixes))
