# SPDX-License-Identifier: Apache-2.0
"""Expiring snapshots of real tables: what is old goes with its files, and nothing that anybody holds on to."""

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.domain.processes import TableProcess
from lakehand.spi import Action, Failure
from lakehand.testing.harness import PluginHarness
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import Warehouse
from tests.jobs.iceberg.service import admitted, execute, execute_raw, given, harness, reason, skipped
from tests.kit.tiers import long_values

pytestmark = pytest.mark.spark

GREEDY = {
    "history.expire.max-snapshot-age-ms": "1",
    "history.expire.max-ref-age-ms": "1",
    "history.expire.min-snapshots-to-keep": "1",
}
HOUR = 3_600_000


def now() -> int:
    return int(time.time() * 1000)


def straight(service: PluginHarness, table: Path, **parameters: Any) -> dict[str, Any]:
    """The job with parameters that no admission would give it."""
    found = given(table, **{"operation_tag": "1-x", "older_than": now() - 25 * HOUR, **parameters})
    return execute_raw(service, "iceberg.expire_snapshots", found)


def test_old_snapshots_go_with_the_files_that_only_they_need(
    spark: SparkSession, warehouse: Warehouse, rewritten: Path
) -> None:
    service, before = harness(spark, rewritten), warehouse.checksum(rewritten)
    count = len(iceberg.snapshot_ids(rewritten))
    expected = f"{count - 1} of {count} snapshots are older than 5d and nobody holds them"
    assert reason(service.wants("expire-snapshots")).startswith(expected)

    done = service.serve("expire-snapshots")

    assert done.reason == f"{count - 1} snapshots were expired, 1 are left"
    assert warehouse.checksum(rewritten) == before
    assert len(iceberg.data_files(rewritten)) == 2
    left = {file.name for file in (rewritten / "metadata").glob("*.avro")}
    assert len([name for name in left if name.startswith("snap-")]) == 1
    assert "0 of 1 snapshots are older than 5d" in skipped(service.wants("expire-snapshots"))


def test_a_dry_run_lists_and_deletes_nothing(spark: SparkSession, rewritten: Path) -> None:
    service, there = harness(spark, rewritten), set(iceberg.files(rewritten))

    result = service.finish(service.asked("expire-snapshots", dry_run=True)).result

    listed = result["would_delete"]
    assert isinstance(listed, list)
    assert len(listed) == result["would_delete_files"]
    assert {Path(str(path)) for path in listed} >= iceberg.data_files(rewritten) - newest_files(rewritten)
    assert set(iceberg.files(rewritten)) == there


def newest_files(table: Path) -> set[Path]:
    return set(sorted(iceberg.data_files(table), key=lambda file: file.stat().st_size)[-2:])


def test_what_branches_and_tags_hold_stays_readable_whatever_the_table_says(
    spark: SparkSession, warehouse: Warehouse, rewritten: Path
) -> None:
    name, (first, second, *_) = warehouse.name(rewritten), iceberg.snapshot_ids(rewritten)
    warehouse.sql(f"ALTER TABLE {name} CREATE TAG kept AS OF VERSION {first} RETAIN 1 DAYS")
    retention = "RETAIN 1 DAYS WITH SNAPSHOT RETENTION 1 SNAPSHOTS 1 DAYS"
    warehouse.sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION {second} {retention}")
    document = iceberg.metadata(rewritten)
    iceberg.edit(rewritten, {**document, "properties": {**document["properties"], **GREEDY}})
    sums = [warehouse.sql(f"SELECT count(*), sum(id) FROM {name}.{ref}") for ref in ("tag_kept", "branch_side")]

    harness(spark, rewritten).serve("expire-snapshots")

    again = [warehouse.sql(f"SELECT count(*), sum(id) FROM {name}.{ref}") for ref in ("tag_kept", "branch_side")]
    assert (again, [found[0][0] for found in sums]) == (sums, [200, 180])
    assert set(iceberg.metadata(rewritten)["refs"]) == {"main", "kept", "side"}


def test_young_snapshots_stay_whatever_the_settings_and_the_request_say(
    spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    document = iceberg.metadata(history)
    iceberg.age(history, -9.5)  # half a day old
    iceberg.edit(history, {**iceberg.metadata(history), "properties": {**document["properties"], **GREEDY}})
    service = harness(spark, history, {"iceberg.expire-snapshots.max-age": "0s"})
    service.factory.open({"iceberg.expire-snapshots.max-age-floor": "0s"})
    assert "0 of 12 snapshots are older than 1d" in skipped(service.wants("expire-snapshots"))

    asked = service.finish(service.asked("expire-snapshots", options={"max-age": "0s", "min-snapshots": 0}))

    assert asked.reason == "nothing to do: no snapshot may go"
    assert len(iceberg.snapshot_ids(history)) == 12


def test_odd_parameters_straight_to_the_job_harm_nothing(
    spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    name, ids = warehouse.name(history), iceberg.snapshot_ids(history)
    warehouse.sql(f"ALTER TABLE {name} CREATE TAG kept AS OF VERSION {ids[0]}")
    document = iceberg.metadata(history)
    document["snapshots"][1]["summary"]["flink.job-id"] = "a"
    document["snapshots"][2]["timestamp-ms"] = now() - HOUR
    iceberg.edit(history, document)
    service = harness(spark, history)

    held = straight(service, history, expire=[ids[0], ids[1], ids[2], ids[-1], 7])
    assert (held["expired"], held["kept"]) == ([], [ids[0], ids[1], ids[2], ids[-1]])
    for odd in ({"older_than": now()}, {"older_than": "x"}, {"expire": "all"}, {"expire": [str(ids[3])]}):
        with pytest.raises(Exception, match=r"h is deleted|not a time|not a list of numbers"):
            straight(service, history, **{"expire": ids, **odd})
    with pytest.raises(Exception, match="the work was for"):
        straight(service, history, expire=ids, location=f"{history}/../{history.name}/.")
    assert iceberg.snapshot_ids(history) == ids


@pytest.mark.parametrize("kind", ["tag", *long_values("branch")])
def test_a_tag_or_branch_that_is_made_in_the_middle_is_honoured(
    kind: str, spark: SparkSession, warehouse: Warehouse, history: Path
) -> None:
    service, ids = harness(spark, history), iceberg.snapshot_ids(history)
    operation = admitted(service, "expire-snapshots")

    def time_to_live() -> None:
        warehouse.sql(f"ALTER TABLE {warehouse.name(history)} CREATE {kind} late AS OF VERSION {ids[4]}")

    done = service.settled(operation, execute(service, operation, expiring=time_to_live))

    assert done.reason == "10 snapshots were expired, 2 are left; 1 got a branch or tag meanwhile"
    assert warehouse.sql(f"SELECT count(*) FROM {warehouse.name(history)}.{kind}_late")[0][0] == 50


def test_what_an_unfinished_operation_started_from_stays(spark: SparkSession, history: Path) -> None:
    service, ids = harness(spark, history), iceberg.snapshot_ids(history)
    started = TableProcess(action=Action("rewrite-data"), parameters={"before": ids[5]})
    service.stored(started)

    service.serve("expire-snapshots")

    assert iceberg.snapshot_ids(history) == ids[5:]


def test_a_table_whose_files_may_be_others_is_left_alone(spark: SparkSession, history: Path) -> None:
    document = iceberg.metadata(history)
    iceberg.edit(history, {**document, "properties": {**document["properties"], "gc.enabled": "false"}})
    service = harness(spark, history)
    for action in ("expire-snapshots", "remove-orphans"):
        assert "gc.enabled is false" in skipped(service.wants(action))
        answer = service.factory.admit(service.runtime(), service.asked(action))
        assert isinstance(answer, Failure)
        found = given(history, older_than=now() - 100 * HOUR, expire=[])
        with pytest.raises(Exception, match=r"gc\.enabled is false"):
            execute_raw(service, f"iceberg.{action.replace('-', '_')}", found)
