# SPDX-License-Identifier: Apache-2.0
"""Tables for the end-to-end tests that are too large to be made row by row in Python."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.hudi_tables import MERGE_ON_READ, scheduling_compaction, write_options

HEAVY_ROWS = 400_000


def make_heavy_table(session: SparkSession, path: Path) -> None:
    """Two commits over all rows: one base file and one log file of the same size, and a plan to merge them."""
    # Each key is written once per commit, so nothing is to be combined, and the first commit has nothing to update.
    quick = {"hoodie.combine.before.upsert": "false", "hoodie.bulkinsert.sort.mode": "NONE"}
    options = {**scheduling_compaction(1), "hoodie.metadata.enable": "false", **quick}
    settings = write_options(path, MERGE_ON_READ, options)
    for number, operation in ((1, "bulk_insert"), (2, "upsert")):
        written = heavy_frame(session, number).write.format("hudi").options(**settings)
        written.option("hoodie.datasource.write.operation", operation).mode("append").save(str(path))


def heavy_frame(session: SparkSession, number: int) -> DataFrame:
    columns = [
        "cast(id as int) as id",
        "'p0' as p",
        f"cast({number} * 1000 + id as long) as v",
        "concat(sha2(cast(id as string), 512), sha2(cast(id + 1 as string), 512)) as note",
        f"cast({number} as long) as ts",
    ]
    return session.range(HEAVY_ROWS).selectExpr(*columns).coalesce(1)


def heavy_facts(session: SparkSession, path: Path) -> tuple[int, int]:
    """How many rows a default reader sees, and what their values add up to."""
    [row] = session.read.format("hudi").load(str(path)).selectExpr("count(1)", "sum(v)").collect()
    return int(row[0]), int(row[1])


HEAVY_FACTS = (HEAVY_ROWS, HEAVY_ROWS * 2000 + HEAVY_ROWS * (HEAVY_ROWS - 1) // 2)
