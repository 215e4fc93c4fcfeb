# SPDX-License-Identifier: Apache-2.0
"""Our rewrites beside the formats' own procedures, called by hand in the same session with the same thresholds.

By turns, each on a fresh table, so that noise meets both.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from bench.report import Figure, print_line
from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.jobs.spark import literal
from lakehand.spi import TableProcess
from tests import hudi_tables, spark_session
from tests.e2e.formats import DAMAGES, Damage, hadoop_catalog, table_reference
from tests.kit.row_checks import admitted, harness_of

BENCH = "rewrites"
FORMATS = ("iceberg", "delta", "hudi")
ROWS, QUICK_ROWS = 600_000, 200  # of each of five commits with 20 files each
ROUNDS = 4
LARGE, LARGE_ROUNDS = 12, 2  # so many times the rows: about 2 GB each
PLAIN = {"hoodie.metadata.enable": "false"}
CORES = min(os.cpu_count() or 1, 2)  # of the session
Run = Callable[[SparkSession, Path, TableProcess], None]


def run(folder: Path, *, quick: bool, large: bool = False) -> list[Figure]:
    spark = spark_session.start_session(**{"spark.driver.memory": "6g"} if large else {})
    times, rounds = (LARGE, LARGE_ROUNDS) if large else (1, 1 if quick else ROUNDS)
    sizes = [True, *[quick] * rounds]
    try:
        return [
            figure for name in FORMATS for figure in of_format(spark, folder, DAMAGES[name], sizes=sizes, times=times)
        ]
    finally:
        spark.stop()


def of_format(
    spark: SparkSession, folder: Path, damage: Damage, *, sizes: Sequence[bool], times: int
) -> Iterator[Figure]:
    """``sizes``: whether a table is small. The first one is: classes are loaded, queries are compiled."""
    by_hand: Run = BY_HAND[damage.format]
    turns: list[tuple[str, Run]] = [("ours", as_job), ("by hand", by_hand)]
    seconds: dict[str, list[float]] = {name: [] for name, _ in turns}
    size = 0
    for number, is_small in enumerate(sizes):
        for name, rewrite in turns if number % 2 else reversed(turns):
            path = table_reference(folder, damage.format, f"{damage.format}_{number}_{name.replace(' ', '_')}")
            fresh(spark, damage, path, QUICK_ROWS if is_small else ROWS * times)
            size = sum(file.stat().st_size for kind in ("*.parquet", ".*.log.*") for file in path.rglob(kind))
            seconds[name].append(timed(spark, damage, path, rewrite))
            shutil.rmtree(path)
            print_line(f"rewrites: {damage.format} {name}: {seconds[name][-1]:.1f} s for {size / 1e6:.0f} MB")
    ours, theirs = (median(seconds[name][1:]) for name, _ in turns)
    named = f"{damage.format} {damage.action}"
    yield Figure(bench=BENCH, name=f"{named}, {size / 1e6:.0f} MB, ours", value=ours, unit="s")
    yield Figure(bench=BENCH, name=f"{named}, by hand", value=theirs, unit="s")
    yield Figure(bench=BENCH, name=f"{named}, ours / by hand", value=ours / theirs, at_most=1.05)
    yield Figure(bench=BENCH, name=f"{named}, ours, per core", value=size / 1e6 / ours / CORES, unit="MB/s")


def fresh(spark: SparkSession, damage: Damage, path: Path, rows: int) -> None:
    """A spoiled table: copied, if one was made before. Iceberg's know where they are, and are made each time."""
    template = path.parent / f"{damage.format}_of_{rows}"
    if damage.format == "iceberg":
        damage.make(spark, path, rows)
        return
    if not template.exists():
        make_hudi(spark, template, rows // 2) if damage.format == "hudi" else damage.make(spark, template, rows)
    shutil.copytree(template, path)


def make_hudi(spark: SparkSession, path: Path, rows: int) -> None:
    """All rows at once, of about 500 bytes; then a fifth of them changes, twice, and a compaction is planned."""
    notes = ", ".join(f"sha2(concat(id, '-', {number}), 256)" for number in range(8))
    frame = spark.range(0, rows, 1, CORES).selectExpr(
        "id", f"concat('p', id % {CORES}) AS p", "id AS v", f"concat({notes}) AS note", "id % 7 AS ts"
    )
    insert, plan = {"hoodie.datasource.write.operation": "bulk_insert"}, hudi_tables.scheduling_compaction(2)
    for number, options in enumerate((insert, {}, plan)):
        changed = frame.where(f"id % 5 = {number}").withColumn("v", col("v") + number) if number else frame
        settings = hudi_tables.write_options(path, hudi_tables.MERGE_ON_READ, {**options, **PLAIN})
        changed.write.format("hudi").options(**settings).mode("append").save(str(path))


def timed(spark: SparkSession, damage: Damage, path: Path, rewrite: Run) -> float:
    process = admitted(harness_of(spark, damage.format, path), damage.action).process
    kept = {key: value for key, value in process.parameters.items() if key != "verify_rows"}
    stored: Mapping[str, Any] = json.loads(json.dumps(kept))
    began = time.perf_counter()
    rewrite(spark, path, TableProcess(action=process.action, job=process.job, parameters=stored))
    took = time.perf_counter() - began
    if not damage.rewrites(path):
        raise RuntimeError(f"{path} was not rewritten")
    return took


def as_job(spark: SparkSession, path: Path, process: TableProcess) -> None:
    job_called(process.job)(Job(spark.newSession(), dict(process.parameters)))


def optimize(spark: SparkSession, path: Path, process: TableProcess) -> None:
    own = spark.newSession()
    for key, parameter in (("minFileSize", "small_bytes"), ("maxFileSize", "target_bytes")):
        own.conf.set(f"spark.databricks.delta.optimize.{key}", str(process.parameters[parameter]))
    own.sql(f"OPTIMIZE delta.`{path}`").collect()


def rewrite_data_files(spark: SparkSession, path: Path, process: TableProcess) -> None:
    own, name = hadoop_catalog(spark, path)
    options: Any = process.parameters["rewrite"]
    listed = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
    catalog, table = name.split(".", 1)
    own.sql(f"CALL {catalog}.system.rewrite_data_files(table => {literal(table)}, options => map({listed}))").collect()


def run_compaction(spark: SparkSession, path: Path, process: TableProcess) -> None:
    own = spark.newSession()
    options: Any = process.parameters["options"]
    for key, value in options.items():
        own.conf.set(key, value)
    own.sql(f"CALL run_compaction(op => 'run', path => {literal(str(path))})").collect()


BY_HAND: Mapping[str, Run] = {"delta": optimize, "iceberg": rewrite_data_files, "hudi": run_compaction}
