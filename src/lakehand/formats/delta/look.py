# SPDX-License-Identifier: Apache-2.0
"""One look at one table: what a decision reads, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehand.formats.delta.settings import Floors
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import Json, TableConfig, TableRuntime


@dataclass(frozen=True, kw_only=True)
class Look:
    table: TableRuntime
    floors: Floors
    options: Mapping[str, Json] = field(default_factory=dict)  # of a person's request
    by_person: bool = False  # then no threshold counts, only what is possible and safe

    @property
    def snapshot(self) -> DeltaSnapshot:
        """Read at the first call, and the same for the whole decision."""
        return delta(self.table)

    @property
    def config(self) -> TableConfig:
        return self.table.config


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the table needs: why, in numbers, and what the job must know."""

    reason: str
    parameters: Mapping[str, Json] = field(default_factory=dict)


def delta(table: TableRuntime) -> DeltaSnapshot:
    snapshot = table.snapshot()
    assert isinstance(snapshot, DeltaSnapshot)
    return snapshot
