# SPDX-License-Identifier: Apache-2.0
"""The demo's PySpark writer and reader, a program of its own: commands come in as JSON lines, answers go out likewise.

It stands for somebody's job: pyspark, Hudi's options, and nothing of Lakehand but those options.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

CITIES = 2
RUNS = 5  # a query's time is the best of so many runs: the first ones warm the JVM up


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answer({"ready": spark.version})
    commands: dict[str, Callable[..., dict[str, Any]]] = {"write": write, "read": read}
    for line in sys.stdin:
        command = json.loads(line)
        answer(commands[command.pop("do")](spark, **command))


def answer(document: dict[str, Any]) -> None:
    sys.stdout.write("\x1e" + json.dumps(document) + "\n")  # the mark tells our lines from anybody else's
    sys.stdout.flush()


def write(
    spark: SparkSession, *, location: str, options: dict[str, str], operation: str, first: int, rows: int, batch: int
) -> dict[str, Any]:
    """One commit: rows first, first + 1, ... with the values of this batch."""
    started = time.monotonic()
    frame = batch_of(spark, first, rows, batch)
    written = frame.write.format("hudi").options(**options).option("hoodie.datasource.write.operation", operation)
    written.mode("append").save(location)
    return {"seconds": time.monotonic() - started}


def batch_of(spark: SparkSession, first: int, rows: int, batch: int) -> DataFrame:
    return spark.range(first, first + rows, 1, CITIES).selectExpr(
        "id",
        f"concat('city-', id % {CITIES}) AS city",
        f"cast(pmod(xxhash64(id, {batch}), 100000) / 100.0 AS decimal(10, 2)) AS fare",
        "concat('driver ', md5(cast(id AS string))) AS driver",
        f"{batch}L AS ts",
    )


def read(spark: SparkSession, location: str) -> dict[str, Any]:
    """What any reader sees: how many rows, their sum of hashes, and how long a query takes."""
    times = []
    for _ in range(RUNS):
        started = time.monotonic()
        frame = spark.read.format("hudi").load(location)
        frame.groupBy("city").agg({"fare": "sum", "driver": "max"}).collect()
        times.append(time.monotonic() - started)
    [row] = frame.selectExpr(
        "count(*) AS rows", "sum(cast(xxhash64(id, city, fare, driver, ts) AS decimal(38, 0))) AS checksum"
    ).collect()
    return {"rows": row.rows, "checksum": str(row.checksum), "seconds": min(times)}


if __name__ == "__main__":
    main()
