# SPDX-License-Identifier: Apache-2.0
"""What it costs to compare rows around a rewrite: the readings as a share of the rewrite that they belong to.

Both are parts of the same attempts, so that a busy machine slows both down alike.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.report import Figure
from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from tests import hudi_tables, spark_session
from tests.e2e.formats import DAMAGES, Damage, table_reference
from tests.kit.row_checks import admitted, harness_of

BENCH = "rows"
MODES = ("count", "checksum")
ROWS, QUICK_ROWS = 60_000, 200  # of each of five commits with 20 files each
HUDI_ROWS, QUICK_HUDI_ROWS = 30_000, 40  # each of three commits changes them all


def run(folder: Path, *, quick: bool) -> list[Figure]:
    spark = spark_session.start_session()
    try:
        return [figure for damage in DAMAGES.values() for figure in of_format(spark, folder, damage, quick=quick)]
    finally:
        spark.stop()


def of_format(spark: SparkSession, folder: Path, damage: Damage, *, quick: bool) -> Iterator[Figure]:
    """Small tables first: classes are loaded, queries are compiled."""
    for size in [True] if quick else [True, False]:
        found = [measured(spark, folder, damage, mode, quick=size) for mode in MODES]
    (rewrite, counting, source), (again, hashing, _) = found
    yield Figure(bench=BENCH, name=f"{damage.format}: {damage.action}", value=(rewrite + again) / 2, unit="s")
    yield Figure(bench=BENCH, name=f"{damage.format}: counts from {source}", value=100 * counting / rewrite, unit="%")
    yield Figure(bench=BENCH, name=f"{damage.format}: checksums", value=100 * hashing / again, unit="%")


def measured(spark: SparkSession, folder: Path, damage: Damage, mode: str, *, quick: bool) -> tuple[float, float, str]:
    """Seconds of the job without its readings, seconds of the readings, and where the numbers came from."""
    path = table_reference(folder, damage.format, f"{damage.format}_{mode}_{'small' if quick else 'large'}")
    make(spark, damage, path, rows=QUICK_ROWS if quick else ROWS, hudi_rows=QUICK_HUDI_ROWS if quick else HUDI_ROWS)
    process = admitted(harness_of(spark, damage.format, path), damage.action, mode=mode).process
    job = Job(spark.newSession(), json.loads(json.dumps(process.parameters)))
    began = time.perf_counter()
    found: dict[str, Any] = job_called(process.job)(job)["verified_rows"]
    took = time.perf_counter() - began
    if found["outcome"] != "equal":
        raise RuntimeError(f"{damage.format}: {found}")
    return took - found["seconds"], found["seconds"], found["after"]["from"]


def make(spark: SparkSession, damage: Damage, path: Path, *, rows: int, hudi_rows: int) -> None:
    """A spoiled table with so many rows in each commit; for Hudi with a compaction plan."""
    if damage.format == "hudi":
        plan = hudi_tables.scheduling_compaction(2)
        hudi_tables.make_table(spark, path, commits=3, rows=hudi_rows, options=plan)
    else:
        damage.make(spark, path, rows)
