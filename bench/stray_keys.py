# SPDX-License-Identifier: Apache-2.0
"""Keys twice and deletes lost when a Hudi writer deletes keys and writes them again beside our compactions, per index
and setting, and what its statements cost. The writer plans, and the compactions run beside it in the same Spark."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from bench.report import Figure, print_line
from lakehand.spi import Skip
from lakehand.writer import file_lock, hudi_options
from tests import hudi_tables as hudi
from tests.jobs.hudi.service import Service

COMMITS, QUICK = 300, 12
KEYS = 60
PLAN_EVERY = 2  # delta commits
SEED = 22
NOWHERE = "http://127.0.0.1:9"
SETTING = "hudi.compaction.stray-keys"
# The index, and what is done about stray keys; whether all must be right.
CASES: Mapping[str, tuple[str, str, bool]] = {
    "default-none": ("SIMPLE", "none", False),
    "default-heal": ("SIMPLE", "heal", True),
    "bloom-heal": ("BLOOM", "heal", True),
    "global-simple-heal": ("GLOBAL_SIMPLE", "heal", True),
    "global-bloom-heal": ("GLOBAL_BLOOM", "heal", True),
    "bucket": ("bucket", "heal", True),
    "record": ("record", "heal", True),
}


@dataclass
class Table:
    """A table and its writer, who knows what should be in it."""

    spark: SparkSession
    path: Path
    index: str
    random: random.Random
    rows: dict[int, int] = field(default_factory=dict)  # key → the number of its last write
    seconds: list[float] = field(default_factory=list)

    @property
    def lock(self) -> dict[str, str]:
        return file_lock(str(self.path / ".hoodie"))

    @property
    def options(self) -> dict[str, str]:
        asked = hudi_options(NOWHERE, index=self.index, lock=self.lock, max_delta_commits=PLAN_EVERY)
        quiet = {"hoodie.write.commit.callback.on": "false", "hoodie.bucket.index.num.buckets": "2"}
        has_metadata = {"hoodie.metadata.enable": "true" if self.index == "record" else "false"}
        return {**hudi.write_options(self.path, hudi.MERGE_ON_READ, {}), **asked, **quiet, **has_metadata}

    def commit(self, number: int) -> None:
        """Everything at first; then a delete or an upsert of a few keys, whether they are there or not."""
        is_delete = number > 1 and self.random.random() < 0.4
        keys = self.random.sample(range(KEYS), KEYS // 6) if number > 1 else list(range(KEYS))
        operation = {"hoodie.datasource.write.operation": "delete" if is_delete else "upsert"}
        data = [(key, f"p{key % 2}", number, f"commit {number}", number) for key in keys]
        frame = self.spark.createDataFrame(data, hudi.SCHEMA).coalesce(1)
        began = time.perf_counter()
        frame.write.format("hudi").options(**{**self.options, **operation}).mode("append").save(str(self.path))
        self.seconds.append(time.perf_counter() - began)
        for key in keys:
            if is_delete:
                self.rows.pop(key, None)
            else:
                self.rows[key] = number

    def wrong(self) -> dict[str, int]:
        found = self.spark.read.format("hudi").load(str(self.path)).select("id", "v").collect()
        times = Counter(row.id for row in found)
        return {
            "keys twice": sum(count > 1 for count in times.values()),
            "deletes lost": len(times.keys() - self.rows.keys()),
            "keys lost": len(self.rows.keys() - times.keys()),
            "old values": sum(times[row.id] == 1 and self.rows.get(row.id, row.v) != row.v for row in found),
        }


@dataclass
class Compactor:
    """Runs the plans that the writer leaves, one at a time, beside it."""

    table: Table
    setting: str
    pool: ThreadPoolExecutor
    running: Future[dict[str, Any]] | None = None
    counted: Counter[str] = field(default_factory=Counter)

    def look(self, *, wait: bool = False) -> None:
        if self.running is not None and (wait or self.running.done()):
            found = self.running.result().get("stray_keys") or {}
            self.counted += Counter(compactions=1, found=found.get("found", 0), left=found.get("left", 0))
            self.running = None
        if self.running is None and hudi.pending(self.table.path):
            self.running = self.pool.submit(self.run)

    def run(self) -> dict[str, Any]:
        properties = {**self.table.lock, SETTING: self.setting}
        service = Service(spark=self.table.spark, path=self.table.path, properties=properties)
        wanted = service.wants("compaction")
        return {} if isinstance(wanted, Skip) else service.execute(service.admitted("compaction"))


def run(folder: Path, *, quick: bool, names: list[str] | None = None, commits: int = COMMITS) -> list[Figure]:
    spark, figures = hudi.start_session("hudi"), []
    try:
        for name, (index, setting, must_be_right) in CASES.items():
            if not names or name in names:
                with compacted(spark, folder / name, index, setting) as compactor:
                    found = contest(compactor, QUICK if quick else commits)
                print_line(f"stray-keys: {name}: {found}")
                figures += shown(name, found, must_be_right=must_be_right)
    finally:
        spark.stop()
    return figures


@contextmanager
def compacted(spark: SparkSession, path: Path, index: str, setting: str) -> Iterator[Compactor]:
    with ThreadPoolExecutor(1) as pool:
        yield Compactor(Table(spark, path, index, random.Random(SEED)), setting, pool)


def contest(compactor: Compactor, commits: int) -> dict[str, float]:
    table = compactor.table
    for number in range(1, commits + 1):
        table.commit(number)
        compactor.look()
    compactor.look(wait=True)
    seconds = sorted(table.seconds[1:])
    return {"commits": commits, **compactor.counted, **table.wrong(), "median": median(seconds), "longest": seconds[-1]}


def shown(name: str, found: Mapping[str, float], *, must_be_right: bool) -> list[Figure]:
    beside = f"{name}: of {found['commits']:.0f} commits beside {found.get('compactions', 0):.0f} compactions"
    wrong = found["keys twice"] + found["deletes lost"] + found["keys lost"] + found["old values"]
    goal = 0.0 if must_be_right else None
    return [
        Figure(bench="stray-keys", name=f"{beside}, keys that are wrong", value=wrong, at_most=goal),
        Figure(
            bench="stray-keys",
            name=f"{name}: longest statement by the median one",
            value=found["longest"] / found["median"],
        ),
    ]
