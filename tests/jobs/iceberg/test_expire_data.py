# SPDX-License-Identifier: Apache-2.0
"""Rows past their age go from real tables: exactly these, in one commit with the tag, and never the young."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.spark import static_method
from lakehand.spi import Finding, Json, Operation, Remedy
from lakehand.testing.harness import PluginHarness
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import MERGE_ON_READ, Warehouse
from tests.jobs.iceberg.service import admitted, execute, execute_raw, harness, skipped
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
NOW = datetime.now(timezone.utc)
SETTINGS = {"iceberg.expire-data.column": "at", "iceberg.expire-data.max-age": "30d", "iceberg.rest-period": "0s"}
TAG = "lakehand-operation"
TYPES = {"timestamp": "TIMESTAMP '{}Z'", "timestamp_ntz": "TIMESTAMP_NTZ '{}'", "date": "DATE '{}'"}


def create(warehouse: Warehouse, *, by: str = "", type: str = "timestamp", version: int = 2) -> Path:
    table = warehouse.folder / f"aged {uuid4().hex}"
    properties = {"format-version": str(version), "write.distribution-mode": "none", **MERGE_ON_READ}
    pairs = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    parts = f"PARTITIONED BY ({by})" if by else ""
    columns = f"id bigint, at {type}, p string"
    warehouse.sql(f"CREATE TABLE {warehouse.name(table)} ({columns}) USING iceberg {parts} TBLPROPERTIES ({pairs})")
    return table


def append(warehouse: Warehouse, table: Path, rows: Mapping[int, float | None], type: str = "timestamp") -> None:
    """One file for each partition, with rows so many days old by their id; None: without a value."""
    values = ", ".join(f"({number}, {value_of(age, type)}, 'p{number % 2}')" for number, age in rows.items())
    names = f"SELECT * FROM VALUES {values} AS t(id, at, p)"
    warehouse.session.sql(names).coalesce(1).writeTo(warehouse.name(table)).append()


def value_of(age: float | None, type: str) -> str:
    moment = "" if age is None else f"{NOW - timedelta(days=age):%Y-%m-%d %H:%M:%S}"
    return f"CAST(NULL AS {type})" if age is None else TYPES[type].format(moment[:10] if type == "date" else moment)


def ids(warehouse: Warehouse, table: Path, **at: str) -> list[int]:
    return sorted(row[0] for row in warehouse.session.read.options(**at).table(warehouse.name(table)).collect())


def own_snapshots(table: Path) -> list[dict[str, Any]]:
    return [one for one in iceberg.metadata(table)["snapshots"] if TAG in one["summary"]]


def requested(service: PluginHarness, **parameters: Json) -> Operation:
    return service.admitted(service.asked("expire-data", **parameters))


@pytest.fixture
def aged(request: pytest.FixtureRequest, warehouse: Warehouse) -> Path:
    """Old: 1 to 4, of which 2 is deleted already. Young or without a value: 5 to 12."""
    table = create(warehouse, by="p", version=getattr(request, "param", 2))
    append(warehouse, table, {1: 45, 3: 44})
    append(warehouse, table, {2: 40, 4: 39, 5: 1, 6: 2, 7: None, 8: 0})
    append(warehouse, table, {9: 3, 10: 2, 11: 1, 12: 0})
    warehouse.delete(table, "id = 2")
    warehouse.sql(f"ALTER TABLE {warehouse.name(table)} CREATE TAG before")
    return table


@pytest.mark.parametrize("aged", [2, *long_values(3)], indirect=True)
def test_rows_go_in_one_commit_and_tags_keep_what_they_have(
    spark: SparkSession, warehouse: Warehouse, aged: Path
) -> None:
    service = harness(spark, aged, SETTINGS)
    before = iceberg.metadata(aged)
    dry = requested(service, dry_run=True)
    found = execute(service, dry)

    assert iceberg.metadata(aged) == before, "a dry run changes nothing"
    assert (found["would_delete_rows"], found["would_delete_files"], found["would_rewrite_files"]) == (3, 2, 1)
    assert found["newest"] == f"{NOW - timedelta(days=39):%Y-%m-%d %H:%M:%S}"
    assert "would delete 3 rows in 2 files" in service.settled(dry, found).reason

    done = service.serve("expire-data")

    assert ids(warehouse, aged) == [5, 6, 7, 8, 9, 10, 11, 12]
    [made] = own_snapshots(aged)
    assert made["summary"][TAG] == done.tag
    assert len(iceberg.metadata(aged)["snapshots"]) == len(before["snapshots"]) + 1
    assert done.result["deleted_rows"] == 3
    assert "1 branches and tags keep what they have" in done.reason
    assert ids(warehouse, aged, tag="before") == [1, 3, *range(4, 13)]
    skipped(service.wants("expire-data"))
    assert execute(service, done)["already"], "an attempt after its commit does not commit again"
    assert len(own_snapshots(aged)) == 1


def test_the_job_keeps_its_floor_whatever_its_parameters_say(
    spark: SparkSession, warehouse: Warehouse, aged: Path
) -> None:
    service = harness(spark, aged, SETTINGS)
    given = requested(service, confirm=True).process.parameters
    before, today = iceberg.metadata(aged), int(NOW.timestamp() * 1000)
    forged: list[tuple[dict[str, Any], str]] = [
        ({"cutoff": today}, "nothing younger than 168 h"),
        ({"cutoff": today + 10**9}, "nothing younger than 168 h"),
        ({"cutoff": None}, "is not a time"),
        ({"column": "id"}, "rows do not grow old by 'id'"),
        ({"column": "p"}, "rows do not grow old by 'p'"),
        ({"column": "gone"}, "rows do not grow old by 'gone'"),
        ({"operation_tag": ""}, "no operation tag"),
    ]
    for change, said in forged:
        with pytest.raises(Exception, match=said):
            execute_raw(service, "iceberg.expire_data", {**given, **change})
    append(warehouse, aged, dict.fromkeys(range(20, 40), 50))
    with pytest.raises(Exception, match=r"rows before .* more than 50% is not deleted") as lost:
        execute_raw(service, "iceberg.expire_data", {**given, "confirm": False})
    assert service.failure(requested(service), lost.value).reason == "implausible-share"
    assert len(iceberg.metadata(aged)["snapshots"]) == len(before["snapshots"]) + 1, "the writer's alone"


@pytest.mark.parametrize("column", ["days(at) timestamp", *long_values("at date", "months(at) timestamp_ntz")])
def test_partitions_go_without_a_rewrite(spark: SparkSession, warehouse: Warehouse, column: str) -> None:
    by, kind = column.split(" ")
    table = create(warehouse, by=by, type=kind)
    append(warehouse, table, {1: 100, 2: 99, 3: 1, 4: 0, 5: None, 6: 2, 7: 3}, kind)
    known = iceberg.data_files(table)
    service = harness(spark, table, SETTINGS)

    done = service.finish(service.asked("expire-data", confirm=True))

    assert ids(warehouse, table) == [3, 4, 5, 6, 7]
    assert iceberg.operations(table)[-1] == "delete"
    assert iceberg.data_files(table) == known, "nothing is written; the files stay for an expiry of snapshots"
    assert (done.result["deleted_rows"], done.result["rewritten_files"], done.result["bytes_rewritten"]) == (2, 0, 0)


def test_a_writer_that_changes_a_file_with_old_rows_wins(spark: SparkSession, warehouse: Warehouse, aged: Path) -> None:
    """Also by a row that is young: a rewrite of what was read before would bring it back."""
    service = harness(spark, aged, SETTINGS)
    operation = admitted(service, "expire-data")
    known = set[Path]()

    def delete() -> None:
        warehouse.delete(aged, "id = 6")
        known.update(iceberg.data_files(aged))

    with pytest.raises(Exception, match=r"ValidationException") as lost:
        execute(service, operation, committing=delete)

    assert service.failure(operation, lost.value).reason == "write-conflict"
    assert service.failure(operation, lost.value).remedy is Remedy.RETRY
    assert service.verdict(operation, {}).finding is Finding.NOT_DONE
    assert ids(warehouse, aged) == [1, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert iceberg.data_files(aged) < known, "what was written for the commit is gone"
    again = service.admitted(operation)
    service.settled(again, execute(service, again))
    assert ids(warehouse, aged) == [5, 7, 8, 9, 10, 11, 12]


@pytest.mark.long
def test_rows_that_a_writer_adds_in_the_middle_stay(spark: SparkSession, warehouse: Warehouse, aged: Path) -> None:
    service = harness(spark, aged, SETTINGS)
    operation = admitted(service, "expire-data")

    result = execute(service, operation, committing=lambda: append(warehouse, aged, {21: 60, 23: 1}))

    service.settled(operation, result)
    assert ids(warehouse, aged) == [5, 6, 7, 8, 9, 10, 11, 12, 21, 23]
    assert len(own_snapshots(aged)) == 1


@pytest.mark.long
def test_files_without_bounds_are_read_for_who_asks(spark: SparkSession, warehouse: Warehouse) -> None:
    table = create(warehouse)
    properties = "TBLPROPERTIES ('write.metadata.metrics.default'='none')"
    warehouse.sql(f"ALTER TABLE {warehouse.name(table)} SET {properties}")
    append(warehouse, table, {1: 50, 2: 1, 3: None})
    append(warehouse, table, {4: 1, 5: 2})
    append(warehouse, table, {7: 50})
    service = harness(spark, table, SETTINGS)
    assert "3 files do not say" in skipped(service.wants("expire-data"))

    done = service.finish(service.asked("expire-data"))

    assert ids(warehouse, table) == [2, 3, 4, 5]
    assert done.result["rewritten_files"] == 2, "the file without old rows stays as it is"


def test_a_static_method_is_found_beside_one_of_instances_with_its_name(spark: SparkSession) -> None:
    assert static_method(spark, "java.lang.Integer", "hashCode")(7) == 7
