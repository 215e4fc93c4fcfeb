# SPDX-License-Identifier: Apache-2.0
"""The shipped Hudi client against the real service; and what happens when nobody tells us anything."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from tests import hudi_client, hudi_tables
from tests.e2e.conftest import Start
from tests.jobs.hudi.service import LOCKING, SERVICE
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
COMMITS, ROWS = 5, 20
PLANNING = {**hudi_tables.scheduling_compaction(2), "hoodie.metadata.enable": "false"}  # as light_table was written


def all_settled(service: RunningService, path: Path) -> bool:
    operations = service.operations(location=str(path))
    return bool(operations) and all(o["status"] == "succeeded" for o in operations) and not hudi_tables.pending(path)


def answers(service: RunningService) -> dict[str, float]:
    """How often the wire answered with which status, from the service's own metrics."""
    lines = httpx.get(service.url + "/metrics", timeout=30).text.splitlines()
    counted = [line for line in lines if "requests_total{" in line and "/v1/hoodie/service/" in line]
    return {line.split('status="')[1].split('"')[0]: float(line.split()[-1]) for line in counted}


def sum_of(spark: SparkSession, path: Path) -> tuple[int, int]:
    [row] = spark.read.format("hudi").load(str(path)).selectExpr("count(1)", "sum(value)").collect()
    return int(row[0]), int(row[1])


def test_the_shipped_client_commits_and_its_plans_are_registered_and_executed(
    spark: SparkSession, lake: Path, start_service: Start, pytestconfig: pytest.Config
) -> None:
    hudi_client.require(pytestconfig)
    path, service = lake / "trips", start_service()
    run = hudi_client.run(path, commits=COMMITS, rows=ROWS, uri=service.url)
    assert run.errors == ()
    wait_for(lambda: all_settled(service, path), "all plans to be executed")
    assert set(answers(service)) == {"200"}
    assert sum_of(spark, path) == (ROWS, hudi_client.expected_sum(rows=ROWS, last_commit=COMMITS))


@pytest.mark.long
def test_the_shipped_client_is_served_while_the_driver_is_dead(
    spark: SparkSession, lake: Path, start_service: Start, pytestconfig: pytest.Config
) -> None:
    hudi_client.require(pytestconfig)
    path, service = lake / "trips", start_service(spark__master="no-such-master")
    run = hudi_client.run(path, commits=COMMITS, rows=ROWS, uri=service.url)
    assert run.errors == ()
    assert set(answers(service)) == {"200"}
    assert [o["instant"] for o in service.operations(location=str(path))] == list(reversed(run.pending_compactions))

    service.stop()
    del service.settings["LAKEHAND_SPARK__MASTER"]
    service.start()
    wait_for(lambda: all_settled(service, path), "all plans to be executed")
    assert sum_of(spark, path) == (ROWS, hudi_client.expected_sum(rows=ROWS, last_commit=COMMITS))


@pytest.mark.long
def test_commits_made_while_the_service_was_down_are_found(
    spark: SparkSession, lake: Path, start_service: Start, light_table: Path, copy_of: Callable[..., Path]
) -> None:
    path, service = copy_of(light_table), start_service()
    service.add_table(path, heartbeat_timeout=5)
    service.wait_status(path, "succeeded")
    service.stop()
    for number in (4, 5, 6):
        hudi_tables.upsert(spark, path, number=number, options=PLANNING)
    assert hudi_tables.pending(path)
    service.start()
    wait_for(lambda: all_settled(service, path), "the new plan to be executed")
    assert hudi_tables.rows(spark, path) == hudi_tables.expected(6)


@pytest.mark.long
def test_a_commit_that_nobody_told_us_of_is_found_at_the_heartbeat(
    spark: SparkSession, lake: Path, start_service: Start, light_table: Path, copy_of: Callable[..., Path]
) -> None:
    path, service = copy_of(light_table), start_service()
    table = service.add_table(path, heartbeat_timeout=3)
    service.wait_status(path, "succeeded")
    for number in (4, 5, 6):
        hudi_tables.upsert(spark, path, number=number, options=PLANNING)
    wait_for(lambda: len(service.operations(location=str(path))) == 2, "the plan to be found")
    wait_for(lambda: all_settled(service, path), "the new plan to be executed")
    assert service.get(f"/api/v1/tables/{table}")["notified_at"] is None


def evaluated_at(service: RunningService, table: int, action: str) -> str | None:
    explained = service.get(f"/api/v1/tables/{table}/explain")["actions"]
    times = {one["action"]: one["evaluated_at"] for one in explained}
    return str(times[action]) if times.get(action) else None


def callback_options(service: RunningService) -> dict[str, str]:
    """Of Hudi's own commit callback, which any writer has; none of them is about a table service."""
    url = service.url + "/v1/hoodie/service/callback"
    return {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.http.url": url}


def add_quiet_table(spark: SparkSession, service: RunningService, path: Path) -> None:
    """The service plans its compaction, and does not find commits by probing. Evaluated once, with one commit."""
    hudi_tables.make_table(spark, path, commits=1, options=LOCKING)
    settings = {**SERVICE, "hudi.compaction.delta-commits": "3"}
    more = {"scheduling": "service", "properties": settings, "heartbeat_timeout": 86400}
    table = service.add_table(path, "compaction", **more)
    wait_for(lambda: evaluated_at(service, table, "compaction"), "the first evaluation")
    for number in (2, 3):
        hudi_tables.upsert(spark, path, number=number, options=LOCKING)


@pytest.mark.long
def test_an_event_or_a_callback_makes_the_service_plan_run_and_verify_while_the_writer_goes_on(
    spark: SparkSession, lake: Path, start_service: Start
) -> None:
    """RFC-43 with a metaserver (the writer does not know of the service) and without (its callback does)."""
    service = start_service()
    tables = {"event": lake / "by_event", "callback": lake / "by_callback"}
    for path in tables.values():
        add_quiet_table(spark, service, path)
        assert (service.operations(location=str(path)), hudi_tables.pending(path)) == ([], [])

    hudi_tables.upsert(spark, tables["event"], number=4, options=LOCKING)
    event = {"specversion": "1.0", "type": "dev.lakehand.table.committed", "source": "catalog", "id": "42"}
    assert service.post("/api/v1/commits", {**event, "data": {"location": str(tables["event"])}})["stored"] == 1
    hudi_tables.upsert(spark, tables["callback"], number=4, options={**LOCKING, **callback_options(service)})

    for path in tables.values():
        wait_for(partial(service.operations, location=str(path)), "the operation to be stored")
        for number in (5, 6):
            hudi_tables.upsert(spark, path, number=number, options=LOCKING)
    for path in tables.values():
        assert service.wait_status(path, "succeeded")["origin"] == "coordinator"
        compactions = [found[1] for found in hudi_tables.instant_files(path) if found[3] == "commit" and not found[4]]
        assert len(compactions) == 1, "planned by the service, run and completed"
        assert hudi_tables.pending(path) == []
        assert hudi_tables.rows(spark, path) == hudi_tables.expected(6)
