# SPDX-License-Identifier: Apache-2.0
"""The boundary of an operation: the table's folder and the extra prefixes whose files its job may touch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from lakehand.domain.processes import Json

PARAMETER = "boundary"  # of a process; set by the dispatcher, never by a request or a factory
EXTRA_LOCATIONS = "extra-locations"  # property of a table: further prefixes of its files, separated by commas


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where a table's location led when its operation was admitted. A job that finds another folder there stops."""

    location: str  # as the table is registered
    real: str  # where that leads, with all links followed
    warehouses: tuple[str, ...]  # real, too
    extra: tuple[str, ...] = ()  # real; further prefixes that an operator named for this table
    folder: str = ""  # device and inode of the table's folder; empty where the storage has none

    def as_parameter(self) -> dict[str, Json]:
        return {**asdict(self), "warehouses": list(self.warehouses), "extra": list(self.extra)}


def extra_locations(text: str) -> Sequence[str]:
    """The prefixes in the value of the property."""
    return [part.strip() for part in text.split(",") if part.strip()]
