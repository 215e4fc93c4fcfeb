# SPDX-License-Identifier: Apache-2.0
"""What a table of the demo is: what its writer does to it, how it is registered, and what must become of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: rows first, first + 1, ... with the values of a batch; or the rows that go."""

    operation: str
    first: int = 0
    rows: int = 0
    batch: int = 0
    parts: int = 2  # that are written side by side: a file each, or one for each city where these are partitions
    where: str = ""  # of a delete

    def __str__(self) -> str:
        if self.where:
            return f"{self.operation} where {self.where}"
        return f"{self.operation} of {self.rows} rows in {self.parts} parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTable:
    name: str
    format: str
    damage: str  # what is done to it, in a sentence
    location: Path
    options: Mapping[str, str] = field(default_factory=dict)
    registration: Mapping[str, Any]
    history: tuple[Commit, ...]  # before Lakehand is let at it
    later: tuple[Commit, ...] = ()  # while Lakehand looks after it; the same values once more: all rows stay equal
    first: frozenset[str]  # the actions that must have succeeded before the writer goes on
    expected: frozenset[str]  # and those in the end
    is_told: bool = False  # its writer reports every commit; of the others Lakehand finds out by looking

    @property
    def title(self) -> str:
        return f"{self.name} ({self.format})"
