# SPDX-License-Identifier: Apache-2.0
"""Two processes race for the commits of one table in a bucket: a writer appends, and our own jobs rewrite.

Each is its own Spark application: ``python -m tests.e2e.races writer|rewriter SPEC``. What was acknowledged is compared
with what a reader sees at the end; a rewrite is seen where the table still shows its effect.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehand.engines.spark.command import catalog_properties, storage_properties
from lakehand.engines.spark.known_jars import FORMATS
from lakehand.spi import Finding, Operation, TableProcess, TableReference, Verdict
from lakehand.storage.object_stores import lance_options
from lakehand.testing.harness import PluginHarness
from tests.e2e.contests import COMPILED, HUDI_OPTIONS, LOG_STORE, PLUGINS, TABLE, Contest, contests
from tests.jars import local_jars
from tests.java_classes import compile_classes
from tests.kit.polling import wait_for
from tests.s3_server import KEY, REGION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP = 400.0  # seconds until both are ready
GIVE_UP = 1800.0  # seconds until a writer that is not done is taken for dead
BURST, PAUSE = 4, 4.0  # commits that follow each other at once, and seconds between such bursts
TOGETHER = 7200.0


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What both processes are told."""

    endpoint: str
    folder: str
    commits: int  # of the writer, at least: it goes on until the rewriter has its number
    rewrites: int  # at least, unless that takes too long
    names: list[str]
    longest: float = 300.0  # seconds of one race, unless the writer has fewer commits than it should by then
    servers: Mapping[str, str] = field(default_factory=dict)  # catalogs and locks, by name

    @property
    def contests(self) -> list[Contest]:
        return [one for one in contests(Path(self.folder), self.files, self.servers) if one.name in self.names]

    def enough(self, contest: Contest) -> tuple[int, int]:
        """Commits and rewrites. One that is lost is enough where that is to be shown."""
        return (self.commits, self.rewrites) if contest.is_safe else (min(self.commits, 8), min(self.rewrites, 5))

    @property
    def storage(self) -> dict[str, str]:
        said = {"endpoint": self.endpoint, "region": REGION, "access-key-id": KEY, "secret-access-key": KEY}
        return {f"s3.{key}": value for key, value in said.items()}

    @property
    def environment(self) -> dict[str, str]:
        """For the stand-in of hudi-aws."""
        found = {"AWS_ENDPOINT": self.endpoint, "AWS_REGION": REGION}
        return {**os.environ, **found, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": KEY}

    @property
    def files(self) -> dict[str, str]:
        return {**self.storage, "client.region": REGION, "s3.path-style-access": "true"}

    @property
    def conf(self) -> dict[str, str]:
        found = [one.catalog for one in self.contests if one.catalog is not None]
        return {**storage_properties(self.storage, ["s3"]), **catalog_properties(found)}

    def file(self, contest: Contest, name: str) -> Path:
        return Path(self.folder) / f"{contest.name}.{name}"

    def has_ended(self, contest: Contest) -> bool:
        return any(self.file(contest, name).exists() for name in ("result", "error"))

    def meet(self, contest: Contest, own: str, other: str) -> None:
        """Both begin at once."""
        self.file(contest, own).touch()
        wait_for(self.file(contest, other).exists, f"the {other} of {contest.name}", WARM_UP)


def start(spec: Spec) -> "SparkSession":
    from tests.spark_session import start_session

    jars = [*local_jars((*FORMATS, "jdbc-sqlite", "jdbc-mariadb", "s3")), Path(spec.folder) / "classes"]
    own = {
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.delta.logStore.s3.impl": LOG_STORE,
    }
    return start_session(**{**spec.conf, **own})


class Writer:
    """Somebody's application: appends one row per commit, and writes down what was acknowledged."""

    def __init__(self, spark: "SparkSession", spec: Spec, contest: Contest) -> None:
        self.spark, self.spec, self.contest = spark, spec, contest

    def create(self) -> None:
        if self.contest.catalog_type:
            options = "TBLPROPERTIES ('write-only'='true')" if self.contest.format == "paimon" else ""
            using = "USING iceberg" if self.contest.format == "iceberg" else ""
            self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {self.contest.name}.{self.contest.database}")
            self.spark.sql(f"CREATE TABLE {self.contest.table_name} (id bigint, v bigint) {using} {options}")
        for number in range(-2, 0):
            self.append(number)

    def append(self, number: int) -> None:
        if self.contest.format == "lance":
            import lance
            import pyarrow as pa

            options = lance_options(self.spec.storage, self.contest.location)
            rows = pa.table({"id": [number], "v": [7 * number]})
            mode = "create" if number == -2 else "append"
            lance.write_dataset(rows, self.contest.location, mode=mode, storage_options=options)
            return
        frame = self.spark.range(number, number + 1, 1, 1).selectExpr("id", "7 * id AS v")
        if self.contest.catalog_type:
            frame.writeTo(self.contest.table_name).append()
        elif self.contest.format == "hudi":  # a row that is there makes a log file, for which a compaction is planned
            rows = frame.union(self.spark.range(-2, -1).selectExpr("id", f"{number}L AS v")).dropDuplicates(["id"])
            rows.write.format("hudi").options(**self.hudi_options).mode("append").save(self.contest.location)
        else:
            frame.write.format(self.contest.format).mode("append").save(self.contest.location)

    @property
    def hudi_options(self) -> dict[str, str]:
        return {**HUDI_OPTIONS, **self.contest.properties, **self.contest.settings}

    def race(self) -> None:
        failures: list[str] = []
        acknowledged: list[int] = []
        try:
            self.create()
            self.spec.meet(self.contest, "writer", "rewriter")
            acknowledged = [-2, -1, *(number for number in self.numbers() if self.tried(number, failures))]
        except Exception as error:
            failures.append(str(error)[:1000])
        draft = self.spec.file(self.contest, "writing")
        draft.write_text(json.dumps({"acknowledged": acknowledged, "failures": failures}))
        draft.rename(self.spec.file(self.contest, "written"))
        self.spec.file(self.contest, "writer").touch()  # the other does not wait for a table that could not be made

    def numbers(self) -> Iterator[int]:
        """One per commit, until both have enough of them. A writer without pauses would let no rewrite through."""
        enough, until = self.spec.file(self.contest, "enough"), time.monotonic() + self.spec.longest
        number, (commits, _) = 0, self.spec.enough(self.contest)
        while number < commits or not (enough.exists() or time.monotonic() > until):
            yield number
            number += 1
            if number % BURST == 0:
                time.sleep(PAUSE)

    def tried(self, number: int, failures: list[str]) -> bool:
        try:
            self.append(number)
        except Exception as error:
            failures.append(str(error)[:300])
            return False
        return True


class Rewriter:
    """Our jobs, as a driver runs them, until the writer is done."""

    def __init__(self, spark: "SparkSession", spec: Spec, contest: Contest) -> None:
        self.spark, self.spec, self.contest = spark, spec, contest
        self.done: list[tuple[Operation, dict[str, Any]]] = []
        self.failures: list[str] = []
        self.verdicts: list[Verdict] = []  # each right after its rewrite
        self.skipped = ""  # why, the last time

    def harness(self) -> PluginHarness:
        reader, factory = (make() for make in PLUGINS[self.contest.format])
        reader.open(self.spec.storage)
        factory.open(self.contest.settings)
        catalog = self.contest.catalog
        if self.contest.is_placed_by_catalog:
            found = [one for one in reader.tables(catalog) if one.db_name == self.contest.database]
            self.contest = replace(self.contest, location=found[0].location)
        location, database = self.contest.location, self.contest.database
        reference = TableReference(location=location, catalog=catalog, db_name=database, table_name=TABLE)
        return PluginHarness(
            factory=factory, format=reader, spec=self.contest.spec, session=self.spark,
            reference=reference if catalog else None, properties=self.contest.settings,
        )  # fmt: skip

    def race(self) -> dict[str, Any]:
        wait_for(self.spec.file(self.contest, "writer").exists, "the writer", WARM_UP)
        harness = self.harness()
        self.rewrite(harness)  # once before, so that the first one of the race is as fast as the others
        self.spec.meet(self.contest, "rewriter", "writer")
        written, until = self.spec.file(self.contest, "written"), time.monotonic() + GIVE_UP
        while not written.exists() and time.monotonic() < until:
            self.rewrite(harness)
            if len(commits_of(self.verdicts)) >= self.spec.enough(self.contest)[1]:
                self.spec.file(self.contest, "enough").touch()
        return self.result(json.loads(written.read_text()))

    def rewrite(self, harness: PluginHarness) -> None:
        """As a person asks for it: at once, beside the writer."""
        try:
            operation = harness.admitted(self.wanted(harness))
        except AssertionError as nothing_to_do:
            self.skipped = str(nothing_to_do)[:300]
            return
        try:
            self.done.append((operation, harness.execute(operation)))
            self.verdicts.append(harness.verdict(*self.done[-1]))
        except Exception as error:
            self.failures.append(str(error)[:300])

    def wanted(self, harness: PluginHarness) -> Operation:
        """Hudi's own plans are executed; of the other formats we ask for what there is."""
        if self.contest.format != "hudi":
            return harness.asked(self.contest.action)
        plan = harness.wants(self.contest.action)
        assert isinstance(plan, TableProcess), plan
        return harness.stored(plan)

    def result(self, written: dict[str, Any]) -> dict[str, Any]:
        fresh, seen = self.harness(), self.seen()
        later = [fresh.verdict(operation, result) for operation, result in self.done]
        commits = commits_of(later if self.contest.lists_history else self.verdicts)
        return {
            "name": self.contest.name, "is_safe": self.contest.is_safe,
            "appends": len(written["acknowledged"]), "appends_failed": written["failures"],
            "lost_appends": sorted(set(written["acknowledged"]) - set(seen)), "doubled": len(seen) - len(set(seen)),
            "rewrites": len(commits), "rewrites_failed": [*Counter(self.failures).items()],
            "rewrite_skipped": self.skipped,
            "lost_rewrites": sum(one.finding is not Finding.DONE for one in commits),
        }  # fmt: skip

    def seen(self) -> list[int]:
        """By readers that remember nothing of the race."""
        options = lance_options(self.spec.storage, self.contest.location)
        location = self.contest.location
        if self.contest.format == "delta":
            import deltalake

            return ids_of(deltalake.DeltaTable(location, storage_options=options).to_pyarrow_table(columns=["id"]))
        if self.contest.format == "lance":
            import lance

            return ids_of(lance.dataset(location, storage_options=options).to_table(["id"]))
        if self.contest.format == "iceberg":
            return self.seen_in_iceberg()
        return [row.id for row in self.spark.newSession().read.format(self.contest.format).load(location).collect()]

    def seen_in_iceberg(self) -> list[int]:
        from pyiceberg.table import StaticTable

        snapshot: Any = self.harness().runtime().snapshot()
        properties: Any = self.spec.files
        table = StaticTable.from_metadata(snapshot.metadata_location, properties)
        return ids_of(table.scan(selected_fields=("id",)).to_arrow())


def commits_of(verdicts: list[Verdict]) -> list[Verdict]:
    """Without those that had nothing to do."""
    return [one for one in verdicts if one.finding is not Finding.DONE or one.numbers.get("changed") is not False]


def ids_of(table: Any) -> list[int]:
    return [int(value) for value in table.column("id").to_pylist()]


def run_writer(spec: Spec) -> None:
    spark = start(spec)
    for contest in spec.contests:
        Writer(spark, spec, contest).race()
    spark.stop()


def run_rewriter(spec: Spec) -> None:
    """One contest that fails does not end the others."""
    spark = start(spec)
    failures: list[Exception] = []
    for contest in spec.contests:
        try:
            result = Rewriter(spark, spec, contest).race()
            draft = spec.file(contest, "result.draft")
            draft.write_text(json.dumps(result))
            draft.rename(spec.file(contest, "result"))
        except Exception as error:
            for name in ("rewriter", "enough"):  # the writer does not wait for it
                spec.file(contest, name).touch()
            spec.file(contest, "error").write_text(str(error))
            failures.append(error)
    spark.stop()
    if failures:
        raise failures[0]


def race(spec: Spec, report: Callable[[dict[str, Any]], None] = lambda _: None) -> list[dict[str, Any]]:
    """Both processes, one contest after the other, and what each of them came to; reported as soon as it is known."""
    folder = Path(spec.folder)
    (folder / "spec.json").write_text(json.dumps(asdict(spec)))
    if any(one.format in COMPILED for one in spec.contests):
        compile_classes(folder / "classes")
    with (folder / "writer.log").open("w") as log, (folder / "rewriter.log").open("w") as own:
        writer = subprocess.Popen(command_of(spec, "writer"), stdout=log, stderr=log, env=spec.environment)
        rewriter = subprocess.Popen(command_of(spec, "rewriter"), stdout=own, stderr=own, env=spec.environment)
        try:
            for one in spec.contests:
                wait_for(lambda: spec.has_ended(one) or rewriter.poll() is not None, f"{one.name}", TOGETHER)  # noqa: B023
                if spec.file(one, "result").exists():
                    report(json.loads(spec.file(one, "result").read_text()))
            code = rewriter.wait(TOGETHER)
        finally:
            for process in (writer, rewriter):
                process.kill()
                process.wait()
    logs = "\n".join((folder / f"{name}.log").read_text()[-3000:] for name in ("writer", "rewriter"))
    assert code == 0, logs
    return [json.loads(spec.file(one, "result").read_text()) for one in spec.contests]


def command_of(spec: Spec, role: str) -> list[str]:
    return [sys.executable, "-m", "tests.e2e.races", role, f"{spec.folder}/spec.json"]


if __name__ == "__main__":
    given = Spec(**json.loads(Path(sys.argv[2]).read_text()))
    (run_writer if sys.argv[1] == "writer" else run_rewriter)(given)
