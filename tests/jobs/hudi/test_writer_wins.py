# SPDX-License-Identifier: Apache-2.0
"""A clustering meets a writer in the same files, on real tables: the writer wins, and the plan is rolled back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.hudi import rollbacks
from lakehand.spi import Finding, Scheduling, TableProcess
from lakehand.writer import COPY_ON_WRITE, MERGE_ON_READ, file_lock, hudi_options
from tests import hudi_tables as hudi
from tests.jobs.hudi.service import SERVICE, Service

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
NOWHERE = "http://127.0.0.1:9"
PLANNING = {"hoodie.clustering.async.max.commits": "1"}

Write = Callable[..., None]


def options_of(path: Path, version: str) -> dict[str, str]:
    lock = file_lock(str(path / ".hoodie" / "locks"))
    wanted = hudi_options(
        NOWHERE, hudi_version=version, actions=["clustering"], table_type=COPY_ON_WRITE, lock=lock, scheduling="service"
    )
    return {**wanted, "hoodie.write.commit.callback.on": "false", "hoodie.metadata.enable": "false"}


@contextmanager
def writer(kind: str, spark: SparkSession, path: Path, table_type: str) -> Iterator[Write]:
    own = options_of(path, "0.15.0" if kind == "0.15" else "1.2.0")

    def here(number: int, **more: str) -> None:
        hudi.upsert(spark, path, number=number, table_type=table_type, options={**own, **more})

    if kind != "0.15":
        yield here
        return
    with hudi.writer_elsewhere(path) as write:
        yield lambda number, **more: write({"number": number, "table_type": table_type, "options": {**own, **more}})


def service(spark: SparkSession, path: Path, scheduling: Scheduling = Scheduling.WRITER) -> Service:
    lock = file_lock(str(path / ".hoodie" / "locks"))
    return Service(spark=spark, path=path, scheduling=scheduling, properties={**SERVICE, **lock})


def assert_lost(served: Service, process: TableProcess, result: dict[str, Any], instant: str) -> None:
    assert result["instants"] == []
    assert list(result["lost"]) == [instant]
    verdict = served.verdict(process, result)
    assert (verdict.finding, verdict.reason) == (Finding.GONE, result["lost"][instant])
    assert hudi.pending(served.path) == []
    assert hudi.completed(served.path, instant) == []


@pytest.mark.parametrize(
    ("kind", "table_type"),
    [
        ("1.2", COPY_ON_WRITE),
        pytest.param("1.2", MERGE_ON_READ, marks=pytest.mark.long),
        pytest.param("0.15", COPY_ON_WRITE, marks=pytest.mark.long),
    ],
)
def test_a_plan_that_a_writer_overtook_is_rolled_back_and_the_next_one_is_done(
    kind: str, table_type: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollbacks, "TIMEOUT", 0.0)
    path = tmp_path / "orders"
    with writer(kind, spark, path, table_type) as write:
        write(1)
        write(2, **{"hoodie.clustering.schedule.inline": "true"}, **PLANNING)
        [(planned, _)] = hudi.pending(path)
        before = service(spark, path).admitted("clustering")
        write(3)  # fails with Hudi's default strategy

        # Admitted before the writer came: only Hudi's check at the commit knows. Admitted after it: we know.
        late = service(spark, path).execute(before)
        assert_lost(service(spark, path), before, late, planned)
        assert "met a writer" in late["lost"][planned]
        assert hudi.rows(spark, path) == hudi.expected(3)

        write(4, **{"hoodie.clustering.schedule.inline": "true"}, **PLANNING)
        [(again, _)] = hudi.pending(path)
        write(5)
        admitted = service(spark, path).admitted("clustering")
        with (
            hudi.write_under_way(path) as begun,
            pytest.raises(rollbacks.WriterBusy, match=f"write {begun} is under way"),
        ):
            service(spark, path).execute(admitted)
        assert [instant for instant, _ in hudi.pending(path)] == [again]
        known = service(spark, path).execute(admitted)
        assert_lost(service(spark, path), admitted, known, again)
        assert "is stale" in known["lost"][again]

        assert len(service(spark, path, Scheduling.SERVICE).serve("clustering")) == 1
        write(6)
    assert hudi.rows(spark, path) == hudi.expected(6)


@pytest.mark.long
def test_a_plan_that_a_writer_rolled_back_while_it_ran_is_gone_and_no_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "orders"
    with writer("1.2", spark, path, COPY_ON_WRITE) as write:
        write(1)
        write(2, **{"hoodie.clustering.schedule.inline": "true"}, **PLANNING)
        [(planned, _)] = hudi.pending(path)
        process = service(spark, path).admitted("clustering")
        write(3, **{"hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"})
        assert hudi.pending(path) == []

        result = service(spark, path).execute(process)

    assert_lost(service(spark, path), process, result, planned)
    verdict = service(spark, path).verdict(process, {"causes": ["java.io.FileNotFoundException"]})
    assert verdict.finding is Finding.GONE
    assert "was rolled back by someone else (" in verdict.reason
    assert hudi.rows(spark, path) == hudi.expected(3)
