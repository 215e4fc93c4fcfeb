# SPDX-License-Identifier: Apache-2.0
"""Finds keys that are more than one row of their partition. It only reads."""

from typing import Any

from pyspark.sql.functions import col, count, lit
from pyspark.sql.functions import sum as total

from lakehand.jobs.hudi import calls, checks
from lakehand.jobs.hudi.stray_keys import KEY, PARTITION
from lakehand.jobs.job import Job

MOST = 100  # partitions and keys of a result
TIMES, KEYS, ROWS = "times", "keys", "rows"


def run(job: Job) -> dict[str, Any]:
    location = checks.enter(job)
    calls.use_options(job.session, job.parameters["options"])
    job.phase("counting the rows of each key")
    rows = job.session.read.format("hudi").load(location).groupBy(PARTITION, KEY).agg(count(lit(1)).alias(TIMES))
    keys = rows.cache()
    try:
        twice = keys.where(col(TIMES) > 1)
        by_partition = twice.groupBy(PARTITION).agg(count(lit(1)).alias(KEYS), total(TIMES).alias(ROWS))
        found = [row.asDict() for row in by_partition.orderBy(col(KEYS).desc(), PARTITION).collect()]
        return {
            "searched": keys.count(),
            "keys": sum(one[KEYS] for one in found),
            "rows": sum(one[ROWS] for one in found),
            "partitions": {one[PARTITION]: one[KEYS] for one in found[:MOST]},
            "examples": [row[KEY] for row in twice.orderBy(PARTITION, KEY).limit(MOST).collect()],
        }
    finally:
        keys.unpersist()
