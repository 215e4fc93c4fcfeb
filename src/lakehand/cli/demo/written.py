# SPDX-License-Identifier: Apache-2.0
"""A table as the demo's writer knows it, whatever its format: it can be written, asked, and read as a whole."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pyspark.sql import SparkSession

CITIES = 2
COLUMNS = ("id", "city", "fare", "driver", "ts")


class Written(ABC):
    def __init__(self, spark: SparkSession, location: str, options: Mapping[str, str]) -> None:
        self.spark = spark
        self.location = location
        self.options = options

    @abstractmethod
    def write(self, *, operation: str, first: int, rows: int, batch: int, parts: int, where: str) -> None:
        """One commit, or as many as the format needs for so many parts."""

    @abstractmethod
    def query(self) -> None:
        """An ordinary question that reads the whole table."""

    @abstractmethod
    def contents(self) -> tuple[int, str]:
        """How many rows there are, and a checksum over all of their values, whatever their order."""
