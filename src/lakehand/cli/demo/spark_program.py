# SPDX-License-Identifier: Apache-2.0
"""The demo's writer and reader, a program of its own: commands come in as JSON lines, answers go out likewise.

It stands for somebody's job: pyspark, pylance, the formats' own options, and nothing of Lakehand.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakehand.cli.demo.lance_written import LanceTable
from lakehand.cli.demo.spark_written import DeltaTable, HudiTable, IcebergTable, PaimonTable
from lakehand.cli.demo.written import Written

RUNS = 3  # a query's time is the best of so many runs: the first ones warm the JVM up

KINDS: Mapping[str, type[Written]] = {
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
        table = KINDS[command["format"]](spark, command["location"], command["options"])
        answer(write(table, command["commit"]) if command["do"] == "write" else read(table))


def answer(document: dict[str, Any]) -> None:
    sys.stdout.write("\x1e" + json.dumps(document) + "\n")  # the mark tells our lines from anybody else's
    sys.stdout.flush()


def write(table: Written, commit: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    table.write(**commit)
    return {"seconds": time.monotonic() - started}


def read(table: Written) -> dict[str, Any]:
    """What any reader sees: how many rows, a checksum over all of their values, and how long a query takes."""
    rows, checksum = table.contents()
    return {"rows": rows, "checksum": checksum, "seconds": min(timed(table) for _ in range(RUNS))}


def timed(table: Written) -> float:
    started = time.monotonic()
    table.query()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
