# SPDX-License-Identifier: Apache-2.0
"""Removing orphans of real tables: what nothing refers to goes when it is old, and nothing else, whatever is asked."""

import shutil
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.iceberg import tables
from lakehand.spi import Remedy
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.conftest import Damaged
from tests.jobs.iceberg.service import (
    admitted,
    adopt,
    execute,
    execute_raw,
    given,
    harness,
    junk,
    opened,
    reason,
    skipped,
)
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark
HOUR = 3_600_000


def test_what_a_dead_writer_left_goes_when_it_is_old(spark: SparkSession, warehouse: Warehouse, history: Path) -> None:
    service, before = harness(spark, history), warehouse.checksum(history)
    live = set(iceberg.files(history))
    old = [junk(history, "data/p=p0/dead writer.parquet"), junk(history, "metadata/dead-m0.avro")]
    young = junk(history, "data/p=p0/at work.parquet", days=2.9)
    next_door = junk(history.parent, f"{history.name} 2/data/p=p0/not ours.parquet")
    assert reason(service.wants("remove-orphans")).startswith("no earlier removal is known")

    dry = service.finish(service.asked("remove-orphans", dry_run=True)).result
    assert [Path(str(path).removeprefix("file:")) for path in dry["would_delete"]] == sorted(old)  # type: ignore[union-attr]
    assert (dry["would_delete_files"], dry["would_delete_bytes"]) == (2, 22)
    assert all(file.exists() for file in old)

    done = service.serve("remove-orphans")

    assert (done.result["deleted_files"], done.result["deleted_bytes"]) == (2, 22)
    assert set(iceberg.files(history)) == live | {young}
    assert next_door.exists()
    assert warehouse.checksum(history) == before
    assert "removed orphans at" in skipped(service.wants("remove-orphans"))


@pytest.mark.parametrize("version", [2, *long_values(3)])
def test_deletes_statistics_tags_and_logged_metadata_are_no_orphans(
    version: int, spark: SparkSession, warehouse: Warehouse, damaged: Damaged
) -> None:
    table = damaged(version)
    first = iceberg.snapshot_ids(table)[0]
    warehouse.sql(f"ALTER TABLE {warehouse.name(table)} CREATE TAG kept AS OF VERSION {first}")
    for statistics in ("computeTableStats", "computePartitionStats"):
        getattr(tables.actions(warehouse.session), statistics)(opened(warehouse, table)).execute()
    warehouse.delete(table, "id % 2 = 0")
    iceberg.age(table, 10)
    there, before = set(iceberg.files(table)), warehouse.checksum(table)
    assert any(file.suffix == ".stats" for file in there)

    done = harness(spark, table).serve("remove-orphans")

    assert (done.result["deleted_files"], set(iceberg.files(table))) == (0, there)
    assert warehouse.checksum(table) == before


def test_a_file_that_is_committed_after_the_listing_stays(
    spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    service = harness(spark, history)
    slow = history / "data" / "p=p0" / "slow.parquet"
    shutil.copy2(next(file for file in iceberg.data_files(history) if file.parent.name == "p=p0"), slow)

    result = execute(service, admitted(service, "remove-orphans"), finding=lambda: adopt(warehouse, history, slow))

    assert result["deleted_files"] == 0
    assert slow.exists()
    assert warehouse.checksum(history)[0] == 125


def test_too_many_orphans_need_a_confirmation(spark: SparkSession, warehouse: Warehouse, history: Path) -> None:
    service, before = harness(spark, history), warehouse.checksum(history)
    listed = len([file for file in iceberg.files(history) if not file.name.startswith(".")])
    left = [junk(history, f"data/{number}.parquet") for number in range(listed // 2)]
    operation = admitted(service, "remove-orphans")

    with pytest.raises(Exception, match="look like orphans") as refused:
        execute(service, operation)

    failure = service.failure(operation, refused.value)
    assert (failure.reason, failure.remedy) == ("implausible-share", Remedy.FATAL)
    assert "lakehand operations submit 1 remove-orphans --confirm" in failure.message
    with pytest.raises(Exception, match="look like orphans"):
        execute_raw(service, operation.process.job, {**operation.process.parameters, "confirm": "yes"})
    assert all(file.exists() for file in left)
    service.history.clear()
    assert service.finish(service.asked("remove-orphans", confirm=True)).result["deleted_files"] == len(left)
    assert warehouse.checksum(history) == before


def test_young_files_stay_whatever_the_settings_and_the_request_say(spark: SparkSession, history: Path) -> None:
    young = junk(history, "data/at work.parquet", days=2.9)
    service = harness(spark, history, {"iceberg.remove-orphans.older-than": "0s"})
    service.factory.open({"iceberg.remove-orphans.older-than-floor": "1h"})

    service.finish(service.asked("remove-orphans", options={"older-than": "0s"}, confirm=True))

    for moment in (int(time.time() * 1000), int(time.time() * 1000) - 71 * HOUR, None, "0", True):
        with pytest.raises(Exception, match=r"h is deleted|is not a time"):
            execute_raw(service, "iceberg.remove_orphans", given(history, confirm=True, older_than=moment))
    assert young.exists()


def test_a_request_removes_nothing_that_the_settings_call_young(spark: SparkSession, history: Path) -> None:
    waiting = junk(history, "data/waiting.parquet", days=10)
    service = harness(spark, history, {"iceberg.remove-orphans.older-than": "480h"})

    done = service.finish(service.asked("remove-orphans", options={"older-than": "80h"}))

    assert done.result["deleted_files"] == 0
    assert waiting.exists()


NESTED_TABLES = [
    "inner/metadata/v1.metadata.json",
    "inner/metadata/version-hint.text",
    "a/b/_delta_log/0.json",
    "a/.hoodie/x",
    "l/_versions/1.manifest",
    "c/snapshot/LATEST",
    "c/snapshot/EARLIEST",
    "c/snapshot/snapshot-7",
]


@pytest.mark.parametrize("marker", NESTED_TABLES)
def test_nothing_is_removed_where_another_table_lies_within(marker: str, spark: SparkSession, history: Path) -> None:
    junk(history, marker)
    theirs = junk(history, f"{marker.partition('/')[0]}/b/data.parquet")
    service = harness(spark, history)
    operation = admitted(service, "remove-orphans")

    with pytest.raises(Exception, match="table lies below this one") as refused:
        execute(service, operation)

    assert isinstance(refused.value, OutsideTable)  # fatal in every format
    assert theirs.exists()


@pytest.mark.parametrize("is_known_by_link", [True, False])
def test_orphans_behind_a_link_are_removed_where_they_really_are(
    is_known_by_link: bool, spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    alias, before = history.parent / "alias", warehouse.checksum(history)
    alias.unlink(missing_ok=True)
    alias.symlink_to(history)
    if is_known_by_link:
        iceberg.edit(history, {**iceberg.metadata(history), "location": str(alias)})
        warehouse.append(history, start=120)
        iceberg.age(history, 10)
        before = warehouse.checksum(history)
    live, left = set(iceberg.files(history)), junk(history, "data/left.parquet")

    done = harness(spark, alias).serve("remove-orphans")

    assert done.result["deleted_files"] == 1
    assert not left.exists()
    assert (set(iceberg.files(history)), warehouse.checksum(history)) == (live, before)
    alias.unlink()


def test_nothing_is_removed_from_a_table_that_lost_its_history(spark: SparkSession, history: Path) -> None:
    nothing = {"snapshots": [], "refs": {}, "current-snapshot-id": -1, "metadata-log": [], "snapshot-log": []}
    iceberg.edit(history, {**iceberg.metadata(history), **nothing})
    there = set(iceberg.files(history))
    found = given(history, older_than=int(time.time() * 1000) - 80 * HOUR)

    with pytest.raises(Exception, match="look like orphans"):
        execute_raw(harness(spark, history), "iceberg.remove_orphans", found)

    assert set(iceberg.files(history)) == there
