# SPDX-License-Identifier: Apache-2.0
"""Keys twice and deletes lost when a Hudi writer deletes keys and writes them again beside our compactions, per index
and setting, and what its statements cost. The tables of a case have a writer and compactions of their own, side by side
in the same Spark, so that their times can be compared. The writers plan, and the compactions run beside them."""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

from pyspark.sql import SparkSession

from bench.report import Figure, print_line
from lakehand.spi import Skip
from lakehand.writer import INDEXES, file_lock, hudi_options
from tests import hudi_tables as hudi
from tests.jobs.hudi.service import Service

COMMITS, QUICK = 300, 12
KEYS = 60
PLAN_EVERY = 2  # delta commits
CHECK_EVERY = 30  # commits: what is wrong once may be hidden by a later delete
SEED = 22
NOWHERE = "http://127.0.0.1:9"
SETTING = "hudi.compaction.stray-keys"
NONE, HEAL = "none", "heal"
WRONG = ("keys twice", "deletes lost", "keys lost", "old values")
METADATA = "metadata"  # a table with the metadata table, which a record index needs anyway
# Each case: tables side by side, by index, what is done about stray keys, and whether there is a metadata table.
# Where an index leaves no key stray, or was seen to leave none, two indexes share a case instead of two settings.
CASES: Mapping[str, Sequence[tuple[str, ...]]] = {
    "simple": [("SIMPLE", NONE), ("SIMPLE", HEAL)],
    "bloom": [("BLOOM", NONE), ("BLOOM", HEAL)],
    "metadata": [("SIMPLE", HEAL, METADATA), ("BLOOM", HEAL, METADATA)],
    "global": [("GLOBAL_SIMPLE", HEAL), ("GLOBAL_BLOOM", HEAL)],
    "logs": [("record", HEAL), ("bucket", HEAL)],
}
# Nobody is called, and 60 rows need no more than one task.
SMALL = {
    "hoodie.write.commit.callback.on": "false",
    "hoodie.bucket.index.num.buckets": "2",
    **{f"hoodie.{one}.parallelism": "1" for one in (
        "insert.shuffle", "upsert.shuffle", "delete.shuffle", "simple.index", "bloom.index", "global.simple.index",
        "record.index",
    )},
}  # fmt: skip


@dataclass
class Table:
    """A table and its writer, who knows what should be in it."""

    spark: SparkSession
    path: Path
    index: str
    has_metadata: bool
    random: random.Random
    rows: dict[int, int] = field(default_factory=dict)  # key → the number of its last write
    statements: list[tuple[float, float]] = field(default_factory=list)  # when each began, and its seconds
    wrong: dict[str, set[int]] = field(default_factory=lambda: {kind: set() for kind in WRONG})

    @property
    def lock(self) -> dict[str, str]:
        return file_lock(str(self.path / ".hoodie"))

    @property
    def options(self) -> dict[str, str]:
        asked = hudi_options(NOWHERE, index=self.index, lock=self.lock, max_delta_commits=PLAN_EVERY)
        metadata = {"hoodie.metadata.enable": "true" if self.has_metadata else "false"}
        return {**hudi.write_options(self.path, hudi.MERGE_ON_READ, {}), **asked, **SMALL, **metadata}

    def commit(self, number: int) -> None:
        """Everything at first; then a delete or an upsert of a few keys, whether they are there or not."""
        is_delete = number > 1 and self.random.random() < 0.4
        keys = self.random.sample(range(KEYS), KEYS // 6) if number > 1 else list(range(KEYS))
        operation = {"hoodie.datasource.write.operation": "delete" if is_delete else "upsert"}
        data = [(key, f"p{key % 2}", number, f"commit {number}", number) for key in keys]
        frame = self.spark.createDataFrame(data, hudi.SCHEMA).coalesce(1)
        began = time.perf_counter()
        frame.write.format("hudi").options(**{**self.options, **operation}).mode("append").save(str(self.path))
        self.statements.append((began, time.perf_counter() - began))
        for key in keys:
            if is_delete:
                self.rows.pop(key, None)
            else:
                self.rows[key] = number

    def look_for_wrong_keys(self) -> None:
        found = self.spark.read.format("hudi").load(str(self.path)).select("id", "v").collect()
        times = Counter(row.id for row in found)
        self.wrong["keys twice"] |= {key for key, count in times.items() if count > 1}
        self.wrong["deletes lost"] |= times.keys() - self.rows.keys()
        self.wrong["keys lost"] |= self.rows.keys() - times.keys()
        once = {row.id: row.v for row in found if times[row.id] == 1}
        self.wrong["old values"] |= {key for key, value in once.items() if self.rows.get(key, value) != value}

    def seconds(self, until: float) -> list[float]:
        """Of all statements that began before, without the one that made the table."""
        return [seconds for began, seconds in self.statements[1:] if began <= until]


@dataclass
class Compactor:
    """Runs the plans that the writer leaves, one at a time, beside it. A failed one is tried again."""

    table: Table
    setting: str
    pool: ThreadPoolExecutor
    running: Future[None] | None = None
    counted: Counter[str] = field(default_factory=Counter)

    def look(self, *, wait: bool = False) -> None:
        if self.running is not None and (wait or self.running.done()):
            self.running.result()
            self.running = None
        if self.running is None and hudi.pending(self.table.path):
            self.running = self.pool.submit(self.run)

    def run(self) -> None:
        properties = {**self.table.lock, "hoodie.index.type": self.table.options["hoodie.index.type"]}
        service = Service(
            spark=self.table.spark, path=self.table.path, properties={**properties, SETTING: self.setting}
        )
        if isinstance(service.wants("compaction"), Skip):
            return
        try:
            found = service.execute(service.admitted("compaction")).get("stray_keys") or {}
        except Exception as error:
            why = f"failed by {type(error).__name__}"
            if why not in self.counted:
                print_line(f"stray-keys: {self.table.path.name}: {why}: {str(error).partition(chr(10))[0]}")
            self.counted[why] += 1
        else:
            self.counted += Counter(compactions=1, found=found.get("found", 0), left=found.get("left", 0))
            if found.get("why"):
                print_line(f"stray-keys: {self.table.path.name}: {found['left']} keys are left stray: {found['why']}")


def run(folder: Path, *, quick: bool, names: list[str] | None = None, commits: int = COMMITS) -> list[Figure]:
    if unknown := set(names or ()) - CASES.keys():
        raise SystemExit(f"there is no case {', '.join(unknown)}: there are {', '.join(CASES)}")
    spark, figures = hudi.start_session("hudi"), []
    try:
        for name in names or CASES:
            try:
                figures += case(spark, folder, name, QUICK if quick else commits)
            except Exception as error:  # of a writer: the other cases are worth their time
                print_line(f"stray-keys: {name} failed: {str(error)[:2000]}")
                figures.append(Figure(bench="stray-keys", name=f"{name}: a writer failed", value=1, at_most=0))
    finally:
        spark.stop()
    return figures


def case(spark: SparkSession, folder: Path, name: str, commits: int) -> list[Figure]:
    compactors = []
    with ThreadPoolExecutor(2 * len(CASES[name])) as pool:
        for index, setting, *more in CASES[name]:
            path = folder / "-".join([index.lower(), setting, *more])
            has_metadata = METADATA in more or index == "record"
            table = Table(spark, path, index, has_metadata, random.Random(SEED))
            compactors.append(Compactor(table, setting, pool))
        for done in [pool.submit(contest, compactor, commits) for compactor in compactors]:
            done.result()
    # As long as all were writing: a table alone has the processors for itself.
    until = min(compactor.table.statements[-1][0] for compactor in compactors)
    return [figure for compactor in compactors for figure in figures_of(compactor, until)]


def figures_of(compactor: Compactor, until: float) -> list[Figure]:
    table, counted = compactor.table, compactor.counted
    seconds = table.seconds(until)
    wrong = {kind: len(keys) for kind, keys in table.wrong.items()}
    times = {"median": median(seconds), "mean": mean(seconds), "longest": max(seconds)}
    shown = {**counted, **wrong, **{name: round(value, 2) for name, value in times.items()}}
    print_line(f"stray-keys: {table.path.name}: {len(table.statements)} commits, {shown}")
    beside = f"{table.path.name}: of {len(table.statements)} commits beside {counted['compactions']} compactions"
    goal = 0.0 if compactor.setting == HEAL or table.index in INDEXES else None
    return [
        Figure(bench="stray-keys", name=f"{beside}, keys that are wrong", value=sum(wrong.values()), at_most=goal),
        *(
            Figure(bench="stray-keys", name=f"{table.path.name}: {name} statement", value=value, unit="s")
            for name, value in times.items()
        ),
    ]


def contest(compactor: Compactor, commits: int) -> None:
    table = compactor.table
    for number in range(1, commits + 1):
        table.commit(number)
        compactor.look()
        if number % CHECK_EVERY == 0:
            table.look_for_wrong_keys()
    compactor.look(wait=True)
    table.look_for_wrong_keys()
