# SPDX-License-Identifier: Apache-2.0
"""Compactions without a service: a program for spark-submit that runs plans in threads, as one would write it by hand.

It uses the statement and the options of the service's own job, so that only what surrounds them differs.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.hudi import calls

Order = dict[str, Any]


def compact(spark: SparkSession, order: Order) -> None:
    session = spark.newSession()
    arguments = {"op": "execute", "path": order["location"], "instants": order["instant"]}
    arguments |= calls.use_options(session, order["options"])
    rows = calls.call(session, "run_compaction", arguments)
    if [row["state"] for row in rows] != ["COMPLETED"]:
        raise RuntimeError(f"{order['location']} was not compacted: {rows}")


def main(file: Path) -> None:
    wanted = json.loads(file.read_text())
    spark = SparkSession.builder.getOrCreate()
    for order in wanted["warm_up"]:
        compact(spark, order)
    began = time.perf_counter()
    with ThreadPoolExecutor(wanted["threads"]) as pool:
        list(pool.map(lambda order: compact(spark, order), wanted["orders"]))
    file.with_suffix(".out").write_text(json.dumps({"seconds": time.perf_counter() - began}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
