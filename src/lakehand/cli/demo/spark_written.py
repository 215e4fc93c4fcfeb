# SPDX-License-Identifier: Apache-2.0
"""Tables that are written and read by PySpark, as the users of each format do it."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakehand.cli.demo.written import CITIES, COLUMNS, Written


class SparkTable(Written):
    def write(self, *, operation: str, first: int, rows: int, batch: int, parts: int, where: str) -> None:
        if where:
            self.spark.sql(f"DELETE FROM {self.name} WHERE {where}")  # noqa: S608
        else:
            self.save(batch_of(self.spark, first, rows, batch, parts), operation)

    def query(self) -> None:
        self.frame.groupBy("city").agg({"fare": "sum", "driver": "max"}).collect()

    def contents(self) -> tuple[int, str]:
        hashed = f"sum(cast(xxhash64({', '.join(COLUMNS)}) AS decimal(38, 0)))"
        [row] = self.frame.selectExpr("count(*) AS rows", f"{hashed} AS checksum").collect()
        return int(row.rows), str(row.checksum)

    @property
    @abstractmethod
    def name(self) -> str:
        """What SQL calls it."""

    @property
    def frame(self) -> DataFrame:
        return self.spark.table(self.name)

    @abstractmethod
    def save(self, frame: DataFrame, operation: str) -> None: ...


class PathTable(SparkTable):
    """Named by its folder alone."""

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
    """Named in a catalog over the lake's folder; the folder is then where the table is."""

    source: ClassVar[str]

    @property
    def name(self) -> str:
        parent = Path(self.location).parent.name
        database = f"{parent.removesuffix('.db')}." if parent.endswith(".db") else ""
        return f"{self.source}.{database}{Path(self.location).name}"

    def save(self, frame: DataFrame, operation: str) -> None:
        writer = frame.writeTo(self.name)
        if Path(self.location).exists():
            writer.append()
            return
        for key, value in self.options.items():
            writer = writer.tableProperty(key, value)
        writer.using(self.source).create()


class IcebergTable(CatalogTable):
    source = "iceberg"


class PaimonTable(CatalogTable):
    source = "paimon"

    def save(self, frame: DataFrame, operation: str) -> None:
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {self.name.rpartition('.')[0]}")
        super().save(frame, operation)


def batch_of(spark: SparkSession, first: int, rows: int, batch: int, parts: int) -> DataFrame:
    return spark.range(first, first + rows, 1, parts).selectExpr(
        "id",
        f"concat('city-', id % {CITIES}) AS city",
        f"cast(pmod(xxhash64(id, {batch}), 100000) / 100.0 AS decimal(10, 2)) AS fare",
        "concat('driver ', md5(cast(id AS string))) AS driver",
        f"{batch}L AS ts",
    )
