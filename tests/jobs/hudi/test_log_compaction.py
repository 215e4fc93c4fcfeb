# SPDX-License-Identifier: Apache-2.0
"""Log compactions on real tables: plans of the writer and of our own, left in the middle, stale, and completed."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.hudi import log_compaction, rollbacks
from lakehand.spi import Finding, Scheduling, Skip
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import OFF
from tests.jobs.hudi.service import LOCKING, SERVICE, Service
from tests.kit.templates import made_once

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
# The newest commit wins, whatever the rows say: a merged block must not be taken for a newer one.
BY_COMMIT = {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
KINDS = {"8": {**OFF, **hudi.VERSIONS[8]}, "9": OFF, "9 with a metadata table": {}}


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "9"))


@pytest.fixture
def options(kind: str) -> dict[str, str]:
    return {**LOCKING, **BY_COMMIT, **KINDS[kind]}


@pytest.fixture
def path(
    spark: SparkSession, kind: str, options: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    def make(folder: Path) -> None:
        hudi.make_table(spark, folder / "trips", options=options)

    template = made_once(tmp_path_factory, f"logs/{kind}", make)
    return Path(shutil.copytree(template / "trips", tmp_path / "trips"))


def by_service(spark: SparkSession, path: Path) -> Service:
    return Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=SERVICE)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_plans_of_the_writer_and_of_our_own_are_done_while_the_writer_goes_on(
    spark: SparkSession, path: Path, options: dict[str, str]
) -> None:
    planned = hudi.leave_log_compaction_plan(spark, path, options)
    hudi.upsert(spark, path, number=4, options=options)

    assert Service(spark=spark, path=path).serve("log-compaction") == [planned]
    assert hudi.rows(spark, path) == hudi.expected(4)
    hudi.upsert(spark, path, number=5, options=options)
    hudi.upsert(spark, path, number=6, options=options)
    [ours] = by_service(spark, path).serve("log-compaction")
    hudi.upsert(spark, path, number=7, options={**options, **hudi.scheduling_compaction(1)})

    [(compaction, _)] = hudi.pending(path)
    assert planned < ours < compaction
    assert by_service(spark, path).serve("compaction") == [compaction]
    assert hudi.rows(spark, path) == hudi.expected(7)


def test_an_attempt_that_died_before_its_commit_is_rolled_back_and_the_next_plan_is_done(
    spark: SparkSession, path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits only while no write is under way, which would fail at its own commit."""
    monkeypatch.setattr(log_compaction, "COMMIT_TIMEOUT", 0.0)
    planned = hudi.leave_log_compaction_plan(spark, path, options)
    service = Service(spark=spark, path=path)
    process = service.admitted("log-compaction")
    with (
        hudi.write_under_way(path, "deltacommit") as begun,
        pytest.raises(rollbacks.WriterBusy, match=f"write {begun} is under way"),
    ):
        service.execute(process)
    assert hudi.pending(path) == [(planned, "logcompaction")]
    hudi.upsert(spark, path, number=4, options=options)
    assert service.verdict(process, {}).finding is Finding.NOT_DONE

    result = service.execute(service.admitted_again(process))

    verdict = service.verdict(process, result)
    assert (verdict.finding, verdict.reason) == (Finding.GONE, result["lost"][planned])
    assert "was left in the middle" in verdict.reason
    assert hudi.pending(path) == []
    assert hudi.rows(spark, path) == hudi.expected(4)
    assert len(by_service(spark, path).serve("log-compaction")) == 1


@pytest.mark.long
def test_an_attempt_that_died_after_its_commit_is_done_and_not_done_twice(
    spark: SparkSession, path: Path, options: dict[str, str]
) -> None:
    planned = hudi.leave_log_compaction_plan(spark, path, options)
    service = Service(spark=spark, path=path)
    process = service.admitted("log-compaction")
    service.execute(process)  # and the result is lost
    files = hudi.instant_files(path)

    again = service.admitted_again(process)
    result = service.execute(again)

    assert service.verdict(process, {}).finding is Finding.DONE
    assert service.verdict(again, result).finding is Finding.DONE
    assert [file[0] for file in hudi.instant_files(path)] == [file[0] for file in files]
    assert len(hudi.completed(path, planned)) == 1


@pytest.mark.long
def test_a_plan_that_a_compaction_overtook_is_removed(spark: SparkSession, path: Path, options: dict[str, str]) -> None:
    planned = hudi.leave_log_compaction_plan(spark, path, options)
    hudi.upsert(spark, path, number=4, options={**options, **hudi.scheduling_compaction(1)})
    service = by_service(spark, path)
    waiting = service.wants("log-compaction")
    assert not isinstance(waiting, Skip)
    service.serve("compaction")

    process = service.admitted("log-compaction")
    result = service.execute(process)

    verdict = service.verdict(process, result)
    assert verdict.finding is Finding.GONE
    assert f"plan {planned} is stale" in verdict.reason
    assert hudi.pending(path) == []
    assert hudi.rows(spark, path) == hudi.expected(4)
