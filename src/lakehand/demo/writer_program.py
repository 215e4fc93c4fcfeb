# SPDX-License-Identifier: Apache-2.0
"""The demo's writer and reader as a separate program: commands arrive as JSON lines, answers leave the same way.

It stands for a user's job: it uses pyspark, pylance and the formats' own options, and nothing of Lakehand.
"""

import hashlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    import pyarrow as pa

CITIES = 2
COLUMNS = ("id", "city", "fare", "driver", "ts")
MARK = "\x1e"  # starts each answer: Spark and Java print to the same stream
RUNS = 2  # the query time is the best of this many runs, because the first ones warm up the JVM


class SparkTable(ABC):
    def __init__(self, spark: SparkSession, location: str, database: str, options: Mapping[str, str]) -> None:
        self.spark = spark
        self.location = location
        self.database = database
        self.options = options

    def write(self, *, operation: str, first: int, rows: int, batch: int, parts: int, where: str) -> None:
        """One commit, or as many as the format needs for this many parts."""
        if where:
            self.spark.sql(f"DELETE FROM {self.name} WHERE {where}")  # noqa: S608
        else:
            self.save(batch_of(self.spark, first, rows, batch, parts), operation)

    def query(self) -> None:
        """Read the whole table."""
        self.frame.groupBy("city").agg({"fare": "sum", "driver": "max"}).collect()

    def contents(self) -> tuple[int, str]:
        """The number of rows, and a checksum over all values that does not depend on their order."""
        hashed = f"sum(cast(xxhash64({', '.join(COLUMNS)}) AS decimal(38, 0)))"
        [row] = self.frame.selectExpr("count(*) AS rows", f"{hashed} AS checksum").collect()
        return int(row.rows), str(row.checksum)

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in SQL."""

    @property
    def frame(self) -> DataFrame:
        return self.spark.table(self.name)

    @abstractmethod
    def save(self, frame: DataFrame, operation: str) -> None: ...


class PathTable(SparkTable):
    """Addressed by its folder."""

    source: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.source}.`{self.location}`"

    @property
    def frame(self) -> DataFrame:
        return self.spark.read.format(self.source).load(self.location)

    def save(self, frame: DataFrame, operation: str) -> None:
        frame.write.format(self.source).options(**self.options).mode("append").save(self.location)


class DeltaTable(PathTable):
    source = "delta"


class HudiTable(PathTable):
    source = "hudi"

    def save(self, frame: DataFrame, operation: str) -> None:
        options = {**self.options, "hoodie.datasource.write.operation": operation}
        frame.write.format("hudi").options(**options).mode("append").save(self.location)


class CatalogTable(SparkTable):
    """Addressed by name, in a catalog over the folder of the lake."""

    source: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.source}.{self.database}{'.' if self.database else ''}{self.location.rpartition('/')[2]}"

    def save(self, frame: DataFrame, operation: str) -> None:
        writer = frame.writeTo(self.name)
        if self.exists():
            writer.append()
            return
        if self.database:
            self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {self.source}.{self.database}")
        for key, value in self.options.items():
            writer = writer.tableProperty(key, value)
        writer.using(self.source).create()

    def exists(self) -> bool:
        try:
            self.spark.table(self.name)
        except AnalysisException:
            return False
        return True


class IcebergTable(CatalogTable):
    source = "iceberg"


class PaimonTable(CatalogTable):
    source = "paimon"


def batch_of(spark: SparkSession, first: int, rows: int, batch: int, parts: int) -> DataFrame:
    return spark.range(first, first + rows, 1, parts).selectExpr(
        "id",
        f"concat('city-', id % {CITIES}) AS city",
        f"cast(pmod(xxhash64(id, {batch}), 100000) / 100.0 AS decimal(10, 2)) AS fare",
        "concat('driver ', md5(cast(id AS string))) AS driver",
        f"{batch}L AS ts",
    )


class LanceTable:
    """Written and read with pylance, without Spark."""

    def __init__(self, _spark: SparkSession, location: str, _database: str, options: Mapping[str, str]) -> None:
        self.location = location
        self.options = dict(options)  # of the storage

    def write(self, *, operation: str, first: int, rows: int, batch: int, parts: int, where: str) -> None:
        import lance

        if where:
            lance.dataset(self.location, storage_options=self.options).delete(where)
            return
        table, size = arrow_batch(first, rows, batch), rows // parts
        for start in range(0, rows, size):
            part = table.slice(start, size)
            lance.write_dataset(part, self.location, mode="append", storage_options=self.options)

    def query(self) -> None:
        self.read(["city", "fare", "driver"]).group_by("city").aggregate(
            [("fare", "sum"), ("driver", "count_distinct")]
        )

    def contents(self) -> tuple[int, str]:
        rows: list[Any] = self.read(list(COLUMNS)).sort_by("id").to_pylist()
        return len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()

    def read(self, columns: list[str]) -> "pa.Table":
        import lance

        return lance.dataset(self.location, storage_options=self.options).to_table(columns=columns)


def arrow_batch(first: int, rows: int, batch: int) -> "pa.Table":
    import pyarrow as pa

    ids = range(first, first + rows)
    columns = {
        "id": list(ids),
        "city": [f"city-{one % CITIES}" for one in ids],
        "fare": [one * 7919 % 100_000 / 100 for one in ids],
        "driver": [f"driver {hashlib.md5(str(one).encode()).hexdigest()}" for one in ids],  # noqa: S324
        "ts": [batch] * rows,
    }
    return pa.table(columns)


KINDS: Mapping[str, type[HudiTable | IcebergTable | DeltaTable | PaimonTable | LanceTable]] = {
    "hudi": HudiTable,
    "iceberg": IcebergTable,
    "delta": DeltaTable,
    "paimon": PaimonTable,
    "lance": LanceTable,
}


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answer({"ready": spark.version})
    for line in sys.stdin:
        command = json.loads(line)
        table = KINDS[command["format"]](spark, command["location"], command["database"], command["options"])
        if command["do"] == "write":
            answer({"seconds": seconds_of(partial(table.write, **command["commit"]))})
        else:
            rows, checksum = table.contents()
            seconds = min(seconds_of(table.query) for _ in range(RUNS))
            answer({"rows": rows, "checksum": checksum, "seconds": seconds})


def answer(document: dict[str, Any]) -> None:
    sys.stdout.write(MARK + json.dumps(document) + "\n")
    sys.stdout.flush()


def seconds_of(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
