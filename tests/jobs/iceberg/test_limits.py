# SPDX-License-Identifier: Apache-2.0
"""What the deleting jobs keep to by themselves, on real tables that changed after the decision or are not as usual."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.testing.harness import PluginHarness
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.service import admitted, adopt, execute, execute_raw, given, harness, junk, opened

pytestmark = pytest.mark.spark
HOUR = 3_600_000


def now() -> int:
    return int(time.time() * 1000)


def expire(service: PluginHarness, table: Path, **parameters: Any) -> dict[str, Any]:
    found = given(table, **{"older_than": now() - 25 * HOUR, **parameters})
    return execute_raw(service, "iceberg.expire_snapshots", found)


def remove_orphans(service: PluginHarness, table: Path) -> dict[str, Any]:
    found = given(table, older_than=now() - 80 * HOUR, confirm=True)
    return execute_raw(service, "iceberg.remove_orphans", found)


@pytest.mark.long
def test_a_rollback_in_the_middle_still_leaves_as_many_snapshots_as_are_to_stay(
    spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    service, ids = harness(spark, history, {"iceberg.expire-snapshots.min-snapshots": "3"}), snapshots(history)
    operation = service.admitted(service.asked("expire-snapshots", options={"min-snapshots": 1}))
    assert operation.process.parameters["expire"] == ids[:9]

    def roll_back() -> None:
        opened(warehouse, history).manageSnapshots().rollbackTo(ids[4]).commit()

    service.settled(operation, execute(service, operation, expiring=roll_back))

    assert snapshots(history) == ids[2:5] + ids[9:]
    assert warehouse.checksum(history)[0] == 50
    assert warehouse.sql(f"SELECT count(*) FROM {warehouse.name(history)}.snapshot_id_{ids[2]}")[0][0] == 30


def snapshots(table: Path) -> list[int]:
    return iceberg.snapshot_ids(table)


@pytest.mark.long
def test_an_expired_file_that_is_committed_anew_before_the_deletion_stays(
    spark: SparkSession, warehouse: Warehouse, rewritten: Path
) -> None:
    service, count = harness(spark, rewritten), warehouse.checksum(rewritten)[0]
    small = sorted(iceberg.data_files(rewritten), key=lambda file: file.stat().st_size)[:-2]
    old = next(f for f in small if f.parent.name == "p=p0" and not f.name.endswith("deletes.parquet"))

    operation = admitted(service, "expire-snapshots")
    execute(service, operation, finding=lambda: adopt(warehouse, rewritten, old))

    assert old in iceberg.data_files(rewritten)
    assert len(iceberg.data_files(rewritten)) == 3
    assert warehouse.checksum(rewritten)[0] > count


MARKERS = [
    "_delta_log/00000000000000000000.json",
    ".hoodie/hoodie.properties",
    "_versions/1.manifest",
    "snapshot/LATEST",
]


@pytest.mark.parametrize("marker", MARKERS)
def test_nothing_is_deleted_where_a_table_of_another_format_has_the_same_folder(
    marker: str, spark: SparkSession, history: Path
) -> None:
    theirs = [junk(history, marker), junk(history, "data/theirs.parquet")]
    service, ids = harness(spark, history), snapshots(history)

    with pytest.raises(Exception, match="table has the same folder as this iceberg table"):
        remove_orphans(service, history)
    with pytest.raises(Exception, match="table has the same folder as this iceberg table"):
        expire(service, history, expire=ids[:3])

    assert all(file.exists() for file in theirs)
    assert snapshots(history) == ids


def cut_off(file: Path) -> None:
    """What is left when the machine of a writer dies, on a storage that shows files before they are whole."""
    (file.parent / f".{file.name}.crc").unlink()
    file.write_bytes(file.read_bytes()[:-40])


@pytest.mark.parametrize("harm", [Path.unlink, cut_off])
@pytest.mark.parametrize("names", ["snap-*.avro", "*-m0.avro"])
def test_where_metadata_cannot_be_read_nothing_is_deleted(
    names: str, harm: Callable[[Path], object], spark: SparkSession, history: Path
) -> None:
    harm(sorted((history / "metadata").glob(names))[0])
    junk(history, "data/left.parquet")
    service, ids = harness(spark, history), snapshots(history)
    there = set(iceberg.files(history))

    with pytest.raises(Exception, match=r"does not exist|was cut off"):
        remove_orphans(service, history)
    with pytest.raises(Exception, match=r"does not exist|was cut off"):
        expire(service, history, expire=ids[:3])

    assert set(iceberg.files(history)) >= there


def test_a_table_that_calls_its_data_by_another_name_loses_nothing(spark: SparkSession, warehouse: Warehouse) -> None:
    table, alias = warehouse.folder / "aliased", warehouse.folder.parent / "alias of data"
    (table / "data").mkdir(parents=True)
    alias.unlink(missing_ok=True)
    alias.symlink_to(table / "data")
    warehouse.create(table, write_data_path=str(alias))
    warehouse.append(table, files=3)
    iceberg.age(table, 10)
    there = set(iceberg.files(table))
    assert iceberg.data_files(table)

    with pytest.raises(Exception, match="seems to spell paths differently"):
        remove_orphans(harness(spark, table), table)

    assert set(iceberg.files(table)) == there
