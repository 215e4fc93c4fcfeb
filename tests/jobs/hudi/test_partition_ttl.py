# SPDX-License-Identifier: Apache-2.0
"""Expired partitions of real tables: dropped by one commit, unless a writer comes first; files stay until a clean."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.jobs import safety
from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Finding, Format, Scheduling, TableProcess, TableSpec
from lakehand.testing.harness import PluginHarness, utc_now
from tests import hudi_tables as hudi
from tests.formats.hudi.runtime import operation
from tests.jobs.hudi.service import LOCKING, SERVICE, Service
from tests.kit.interruptions import Hook, Interruptions, Killed, die, run_job
from tests.kit.templates import made_once
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
PROPERTIES = {**SERVICE, "hudi.partition-ttl.retain": "30d"}
OPTIONS = {**LOCKING, "hoodie.metadata.enable": "false"}
KINDS = {
    "v9-mor": (hudi.MERGE_ON_READ, hudi.VERSIONS[9]),
    "v8-cow": (hudi.COPY_ON_WRITE, hudi.VERSIONS[8]),
    "v6-mor": (hudi.MERGE_ON_READ, hudi.VERSIONS[6]),
}
ALL = ("a", "b", "c", "d")


class Expiring(Service):
    """A table of four partitions; ``a`` was last written forty days ago."""

    def writes(self, number: int, *partitions: str) -> None:
        write(self.spark, self.path, KINDS[self.path.parent.name], number, partitions)

    def interrupted(self, process: TableProcess, hooks: Mapping[str, Hook]) -> dict[str, Any]:
        return run_job(self.spark, process.job, process.parameters, Interruptions(hooks=dict(hooks)))


def write(
    spark: SparkSession, path: Path, kind: tuple[str, Mapping[str, str]], number: int, partitions: tuple[str, ...]
) -> None:
    table_type, more = kind
    options = {**OPTIONS, **more}
    hudi.upsert_partitions(spark, path, partitions, number=number, table_type=table_type, options=options)


def make(spark: SparkSession, path: Path, kind: str) -> None:
    write(spark, path, KINDS[kind], 1, ALL)
    hudi.make_older(path, 40)
    write(spark, path, KINDS[kind], 2, ALL[1:])


def expiring(spark: SparkSession, kind: str, folder: Path, factory: pytest.TempPathFactory) -> Expiring:
    template = made_once(factory, f"expiring/{kind}", lambda at: make(spark, at / "days", kind))
    path = Path(shutil.copytree(template / "days", folder / kind / "days"))
    return Expiring(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=PROPERTIES)


@pytest.fixture(params=["v9-mor", *long_values("v8-cow", "v6-mor")])
def table(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Expiring:
    return expiring(spark, request.param, tmp_path, tmp_path_factory)


@pytest.fixture
def one(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Expiring:
    return expiring(spark, "v9-mor", tmp_path, tmp_path_factory)


def test_what_expired_is_dropped_and_the_writer_goes_on(table: Expiring) -> None:
    before, files = hudi.properties(table.path), sorted((table.path / "a").iterdir())
    process = table.admitted("partition-ttl")
    assert process.parameters["partitions"] == ["a"]

    result = table.execute(process)

    verdict = table.verdict(process, result)
    assert verdict.finding is Finding.DONE, verdict
    assert verdict.numbers["partitions_dropped"] == 1
    assert hudi.values(table.spark, table.path) == {"b": 2, "c": 2, "d": 2}
    assert hudi.properties(table.path) == before
    assert sorted((table.path / "a").iterdir()) == files, "the files stay until a clean"
    assert "0 of 3 partitions were" in str(table.wants("partition-ttl"))
    table.writes(3, "a", "d")
    assert hudi.values(table.spark, table.path) == {"a": 3, "b": 2, "c": 2, "d": 3}


def test_a_partition_that_is_written_before_the_lock_is_taken_stays(table: Expiring) -> None:
    process = table.admitted("partition-ttl")

    result = table.interrupted(process, {"waiting for the table's lock": lambda: table.writes(3, "a")})

    assert list(result["kept"]) == ["a"]
    verdict = table.verdict(process, result)
    assert verdict.finding is Finding.GONE
    assert "a was written meanwhile" in verdict.reason
    assert hudi.values(table.spark, table.path) == {"a": 3, "b": 2, "c": 2, "d": 2}


def test_a_job_that_dies_in_the_middle_has_dropped_nothing_and_is_done_again(one: Expiring) -> None:
    process = one.admitted("partition-ttl")

    with pytest.raises(Killed):
        one.interrupted(process, {"dropping": die})

    assert one.verdict(process, {}).finding is Finding.NOT_DONE
    assert hudi.values(one.spark, one.path) == {"a": 1, "b": 2, "c": 2, "d": 2}
    again = one.admitted_again(process)
    assert again.parameters["partitions"] == ["a"]
    hudi.let_heartbeats_expire(one.path)
    assert one.verdict(again, one.execute(again)).finding is Finding.DONE
    one.writes(3, "b")
    assert hudi.values(one.spark, one.path) == {"b": 3, "c": 2, "d": 2}


def test_a_job_that_dies_right_after_its_commit_is_done_and_not_done_twice(one: Expiring) -> None:
    process = one.admitted("partition-ttl")
    with pytest.raises(Killed):
        one.interrupted(process, {"committed": die})
    one.writes(3, "a")

    verdict = one.verdict(process, {})
    again = one.admitted_again(process)
    result = one.execute(again)

    assert verdict.finding is Finding.DONE
    assert result["already_done"] is True
    assert one.verdict(again, result).reason == verdict.reason
    assert hudi.values(one.spark, one.path) == {"a": 3, "b": 2, "c": 2, "d": 2}, "what came later stays"


def test_a_dry_run_lists_the_partitions_and_drops_none(one: Expiring) -> None:
    request = TableProcess(action=one.admitted("partition-ttl").action, parameters={"mode": "plan-and-execute"})
    process = one.admit(operation(replace(request, parameters={**request.parameters, "dry_run": True}), origin="api"))
    before = [file[0] for file in hudi.instant_files(one.path)]

    result = one.execute(process)

    assert (result["partitions"], result["would_delete_files"]) == (1, 1)
    assert result["would_delete"][0].startswith("a (1 files, ")
    assert one.verdict(process, result).finding is Finding.DONE
    assert [file[0] for file in hudi.instant_files(one.path)] == before


@pytest.mark.long
def test_the_metadata_table_and_the_next_commits_are_right(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, later = tmp_path / "days", timedelta(days=40)
    hudi.upsert_partitions(spark, path, ALL, number=1, options=LOCKING)
    before = hudi.properties(path)
    monkeypatch.setattr(safety, "time", SimpleNamespace(time=lambda: time.time() + later.total_seconds()))
    spec = TableSpec(
        location=str(path), format=Format("hudi"), table_name="days", scheduling=Scheduling.SERVICE,
        properties={**PROPERTIES, "hudi.partition-ttl.max-partitions": "1"},
    )  # fmt: skip
    harness = PluginHarness(
        factory=HudiProcessFactory(), format=HudiFormat(), spec=spec, session=spark, now=lambda: utc_now() + later
    )

    done = harness.finish(harness.asked("partition-ttl", confirm=True))

    kept = {name: 1 for name in ALL if [name] != done.result["dropped"]}
    assert len(kept) == 3
    assert hudi.values(spark, path) == hudi.values(spark, path, **{"hoodie.metadata.enable": "false"}) == kept
    assert hudi.properties(path) == before
    hudi.upsert_partitions(spark, path, ("a", "b"), number=2, options=LOCKING)
    assert hudi.values(spark, path) == {**kept, "a": 2, "b": 2}


@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        ("older_than", 2_000_000_000_000, safety.BelowFloor),
        ("partitions", ["a", ".hoodie"], safety.UnsafeRequest),
        ("partitions", [], safety.UnsafeRequest),
        ("partitions", ["../elsewhere"], safety.UnsafeRequest),
        ("partitions", ["a/../../elsewhere"], OutsideTable),
    ],
)
def test_the_job_itself_refuses_what_no_decision_would_ask_for(
    one: Expiring, parameter: str, value: Any, error: type[Exception]
) -> None:
    process = one.admitted("partition-ttl")
    before = [file[0] for file in hudi.instant_files(one.path)]

    with pytest.raises(error):
        one.execute(replace(process, parameters={**process.parameters, parameter: value}))

    assert [file[0] for file in hudi.instant_files(one.path)] == before
