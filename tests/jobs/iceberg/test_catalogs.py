# SPDX-License-Identifier: Apache-2.0
"""Tables of catalogs, written and served through them: one address is enough for Spark and for our own reading."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.engines.spark.command import catalog_properties
from lakehand.formats.iceberg import IcebergFormat
from lakehand.jobs.iceberg import tables
from lakehand.jobs.job import Job
from lakehand.spi import Catalog, Format
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.service import admitted, execute, given, harness, skipped
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["jdbc", *long_values("hadoop")])
def test_a_table_of_a_catalog_is_found_and_served(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    properties = {
        "warehouse": str(tmp_path / "lake"),
        **({"uri": f"jdbc:sqlite:{tmp_path}/c.db"} if kind == "jdbc" else {}),
    }
    catalog = Catalog(name="lake", format=Format("iceberg"), type=kind, properties=properties)
    conf, session = catalog_properties([catalog]), spark.newSession()
    for key, value in conf.items():
        session.conf.set(key, value)
    session.sql("CREATE NAMESPACE lake.sales")
    warehouse = Warehouse(session, "lake.sales", tmp_path)
    table = warehouse.create(Path("order lines"))
    for number in range(5):
        warehouse.append(table, start=number * 10)
    before = warehouse.checksum(table)

    [reference] = IcebergFormat().tables(catalog)
    service = harness(spark, Path(reference.location))
    service.reference = reference
    service.spec = replace(service.spec, catalog="lake", db_name="sales", table_name="order lines")
    operation = admitted(service, "rewrite-data")
    done = service.settled(operation, execute(service, operation, conf))

    assert done.reason.startswith("10 data files became 2 in snapshot ")
    warehouse.sql("REFRESH TABLE lake.sales.`order lines`")
    assert warehouse.checksum(table) == before
    assert "2 of 2 files" in skipped(service.wants("rewrite-data"))
    for action in ("compute-statistics", "compute-partition-statistics"):
        operation = admitted(service, action)
        service.settled(operation, execute(service, operation, conf))
        assert skipped(service.wants(action)).startswith("the current snapshot, ")


def test_a_commit_that_the_catalog_of_the_session_has_not_seen_counts(spark: SparkSession, tmp_path: Path) -> None:
    warehouse, writer = (Warehouse(spark.newSession(), "lake.sales", tmp_path) for _ in range(2))
    catalog = Catalog(name="lake", format=Format("iceberg"), type="hadoop", properties={"warehouse": str(tmp_path)})
    for key, value in catalog_properties([catalog]).items():
        warehouse.session.conf.set(key, value)
        writer.session.conf.set(key, value)
    table = warehouse.create(tmp_path / "sales" / "seen")
    job = Job(warehouse.session, given(table, catalog="lake", namespace="sales", table="seen"))
    assert tables.load(job).currentSnapshot() is None

    writer.append(table)

    assert tables.load(job).currentSnapshot().snapshotId() == iceberg.snapshot_ids(table)[-1]
