# SPDX-License-Identifier: Apache-2.0
"""A bounded rewrite begins with the partitions that events named, whatever the transforms; the next one goes on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.spi import Skip, TableProcess
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.service import harness

pytestmark = pytest.mark.spark
BOUNDS = {"iceberg.rewrite-data.min-input-files": "3", "iceberg.rewrite-data.max-files": "6"}
SPEC = "p, d, days(at), hours(other), bucket(4, id), truncate(2, note)"
ROWS = (
    "(1, 'it\\'s', date'2026-11-15', timestamp'2026-11-15 10:00:00', timestamp'2026-11-15 10:00:00', 'note')",
    "(2, null, null, null, timestamp'1969-11-15 10:00:00', 'other')",
    "(3, 'c', date'1969-01-02', timestamp'1969-12-31 10:00:00', null, null)",
)
C = "p=c/d=1969-01-02/at_day=1969-12-31"


@pytest.fixture
def table(warehouse: Warehouse) -> Path:
    """Three files in each of three partitions."""
    path = warehouse.folder / "named"
    columns = "id bigint, p string, d date, at timestamp, other timestamp, note string"
    warehouse.sql(f"CREATE TABLE {warehouse.name(path)} ({columns}) USING iceberg PARTITIONED BY ({SPEC})")
    for _ in range(3):
        warehouse.sql(f"INSERT INTO {warehouse.name(path)} VALUES {', '.join(ROWS)}")
    return path


def files(warehouse: Warehouse, table: Path) -> dict[str, int]:
    """How many files each partition has, by its column p."""
    counted = f"SELECT partition.p, count(*) FROM {warehouse.name(table)}.files GROUP BY partition.p"
    return {str(row[0]): row[1] for row in warehouse.sql(counted)}


def test_named_partitions_are_rewritten_first_and_the_others_next(
    spark: SparkSession, warehouse: Warehouse, table: Path
) -> None:
    service, before = harness(spark, table, BOUNDS), warehouse.checksum(table)
    assert files(warehouse, table) == {"it's": 3, "None": 3, "c": 3}
    service.changed_partitions = [C, "p=nowhere"]
    wanted = service.wants("rewrite-data")
    assert isinstance(wanted, TableProcess), wanted
    assert wanted.reason.endswith("; of 3 partitions 2 now, first 1 that events named")
    service.changed_partitions = []

    first = service.finish(service.stored(wanted))

    left = files(warehouse, table)
    assert (first.result["rewritten"], left["c"], sorted(left.values())) == (6, 1, [1, 1, 3])
    service.serve("rewrite-data")
    assert set(files(warehouse, table).values()) == {1}
    assert isinstance(service.wants("rewrite-data"), Skip)
    assert warehouse.checksum(table) == before
