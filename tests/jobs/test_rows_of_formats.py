# SPDX-License-Identifier: Apache-2.0
"""Rows on request in each format: right beside a live writer, after a lost report, and when the rewrite is wrong."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.job import Job
from lakehand.spi import Operation
from tests import hudi_tables, lance_tables
from tests.e2e import formats
from tests.e2e.formats import DAMAGES, hadoop_catalog, paimon_catalog, rows, table_reference
from tests.kit.interruptions import Interruptions, run_job
from tests.kit.row_checks import admitted, harness_of, verifying
from tests.kit.tiers import long_values

sys.path.append(str(Path(formats.__file__).parent / "stops"))
pytestmark = pytest.mark.spark
Append = Callable[[SparkSession, Path, int], object]
EACH = 40  # rows of a commit


@dataclass(frozen=True)
class Case:
    format: str
    phase: str  # of the job, right before it commits
    append: Append  # a writer's commit with a number
    counted_from: str  # metadata, if the format has exact counts of such a table


def append_delta(session: SparkSession, path: Path, number: int) -> None:
    rows(session, number, EACH).write.format("delta").mode("append").save(str(path))


def append_iceberg(session: SparkSession, path: Path, number: int) -> None:
    own, name = hadoop_catalog(session, path)
    rows(own, number, EACH).writeTo(name).append()


def append_paimon(session: SparkSession, path: Path, number: int) -> None:
    own, name = paimon_catalog(session, path)
    rows(own, number, EACH).writeTo(name).append()


def append_lance(session: SparkSession, path: Path, number: int) -> None:
    lance.write_dataset(lance_tables.rows(number * EACH, EACH), str(path), mode="append")


def upsert_hudi(session: SparkSession, path: Path, number: int) -> None:
    planned = hudi_tables.scheduling_compaction(1) if number == LAST else {}
    hudi_tables.upsert(session, path, number=number, options=planned)


LAST = 30  # the number of the last commit, after those beside the job
CASES = {
    one.format: one
    for one in (
        Case("delta", "optimize", append_delta, "metadata"),
        Case("iceberg", "rewriting", append_iceberg, "metadata"),
        Case("paimon", "packing", append_paimon, "metadata"),
        Case("lance", "committing", append_lance, "metadata"),
        Case("hudi", "executing", upsert_hudi, "data"),
    )
}


def report(spark: SparkSession, operation: Operation, record: Interruptions | None = None) -> dict[str, Any]:
    found = run_job(spark, operation.process.job, operation.process.parameters, record or Interruptions())
    rows: dict[str, Any] = found["verified_rows"]
    return rows


@pytest.mark.parametrize("format", ["iceberg", "paimon", "lance", *long_values("hudi", "delta")])
def test_rows_are_compared_beside_a_writer_after_a_lost_report_and_when_the_rewrite_is_wrong(
    spark: SparkSession, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "COMMITS", 2)
    case, damage, path = CASES[format], DAMAGES[format], table_reference(tmp_path, format, format)
    damage.make(spark, path, *([] if format == "hudi" else [200]))
    table = harness_of(spark, format, path)
    operation = admitted(table, damage.action)

    # A writer commits between the start and our commit, and again before the second reading.
    record = Interruptions(hooks={
        case.phase: lambda: case.append(spark, path, 20),
        "reading the rows after": lambda: case.append(spark, path, 21),
    })  # fmt: skip
    found = report(spark, operation, record)
    assert found["outcome"] == "equal", found
    assert found["before"]["checksum"] == found["after"]["checksum"]
    assert found["before"]["state"] != found["after"]["state"]

    # The report was lost with the driver: only the rows are compared, and only counted this time.
    counted = report(spark, verifying(operation, mode="count", only=True, notes=record.notes))
    assert counted["outcome"] == "equal", counted
    assert counted["after"]["rows"] == found["after"]["rows"]
    assert (counted["after"]["from"], found["after"]["from"]) == (case.counted_from, "data")
    assert damage.rewrites(path) - (2 if format == "lance" else 0) >= 1

    # The next rewrite is wrong.
    case.append(spark, path, LAST)
    broken = admitted(table, damage.action)
    from lakehand_breaks import run_broken  # type: ignore[import-not-found]

    result = run_broken(Job(spark.newSession(), dict(broken.process.parameters)), broken.process.job)
    assert result["verified_rows"]["outcome"] == "unequal", result
