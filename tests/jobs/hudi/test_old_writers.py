# SPDX-License-Identifier: Apache-2.0
"""Tables of Hudi 0.15, which goes on writing to them in a process of its own: served, and they stay what they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.domain.references import TableReference
from lakehand.formats.hudi import HudiFormat
from lakehand.jobs.hudi import rollbacks
from lakehand.spi import Scheduling
from lakehand.writer import COPY_ON_WRITE
from tests import hudi_tables as hudi
from tests.jobs.hudi.service import LOCKING, SERVICE, Service
from tests.jobs.hudi.test_writer_wins import options_of, overtake_plans

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def old_writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hudi.Write]:
    """One for all tests: each step names its table."""
    with hudi.writer_elsewhere(tmp_path_factory.mktemp("nowhere")) as write:
        yield write


def test_a_table_of_hudi_0_15_is_served_and_stays_one(
    spark: SparkSession, tmp_path: Path, old_writer: hudi.Write
) -> None:
    path = tmp_path / "old"
    by_writer = Service(spark=spark, path=path)
    by_service = Service(spark=spark, path=path, scheduling=Scheduling.SERVICE, properties=SERVICE)

    def writes(number: int, **more: str) -> None:
        old_writer({"path": str(path), "number": number, "options": {**LOCKING, **more}})

    writes(1)
    writes(2, **hudi.scheduling_compaction(2))
    [(planned, _)] = hudi.pending(path)
    assert by_writer.serve("compaction") == [planned]
    writes(3)
    writes(4)
    assert len(by_service.serve("compaction")) == 1
    assert len(by_service.serve("clean")) == 1
    assert len(by_service.serve("clustering")) == 1
    writes(5)
    writes(6, **hudi.scheduling_clustering(1))
    [(planned, _)] = hudi.pending(path)
    assert by_writer.serve("clustering") == [planned]
    cleaning = hudi.leave_clean_plan(spark, path, {**LOCKING, **hudi.VERSIONS[6]})
    assert by_writer.serve("clean") == [cleaning]
    snapshot = HudiFormat().inspect(TableReference(location=str(path)))
    assert (snapshot.version, snapshot.layout, snapshot.pending) == (6, 1, ())
    writes(7)
    assert hudi.rows(spark, path) == hudi.expected(7)


def test_a_plan_that_a_writer_of_0_15_overtook_is_rolled_back_and_the_next_one_is_done(
    spark: SparkSession, tmp_path: Path, old_writer: hudi.Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollbacks, "TIMEOUT", 0.0)
    path = tmp_path / "orders"
    step = {"path": str(path), "table_type": COPY_ON_WRITE}
    own = options_of(path, "0.15.0")

    overtake_plans(
        spark, path, lambda number, **more: old_writer({**step, "number": number, "options": {**own, **more}})
    )
