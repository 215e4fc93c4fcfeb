# SPDX-License-Identifier: Apache-2.0
"""A table at one moment in figures: what its own metadata says, read without Spark, and what a reader sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehand.spi import Json, TableFormat, TableReference, health

MERGED = (health.LOG_FILES, health.DELETE_FILES, health.DELETION_VECTORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    numbers: Mapping[str, Json]
    rows: int
    checksum: str
    seconds: float  # of one query over the whole table

    def count(self, *names: str) -> int:
        return sum(value for name in names if isinstance(value := self.numbers.get(name), int))

    @property
    def files(self) -> int:
        return self.count(health.FILES)

    @property
    def merged(self) -> int:
        """What a reader must merge with the data: log files, delete files, deletion vectors."""
        return self.count(*MERGED)

    @property
    def opened(self) -> int:
        """What a query of the whole table opens."""
        return self.files + self.merged


def picture(format: TableFormat, location: Path, seen: Mapping[str, Any]) -> Picture:
    numbers = format.inspect(TableReference(location=str(location))).numbers
    return Picture(
        numbers=numbers, rows=int(seen["rows"]), checksum=str(seen["checksum"]), seconds=float(seen["seconds"])
    )
