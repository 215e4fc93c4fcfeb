# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the service, of the driver, and of both, while a real compaction runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import hudi_tables
from tests.e2e.conftest import Start
from tests.e2e.tables import HEAVY_FACTS, heavy_facts
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
QUICK_HEARTBEAT = {"hoodie.client.heartbeat.interval_in_ms": "5000"}  # Hudi takes a runner for dead after twice that
SHORT_LEASE = {"lease": "12", "lease_margin": "3", "retry__first_delay": "1"}


def given_a_running_compaction(service: RunningService, path: Path) -> dict[str, Any]:
    """Registered, submitted, and at work on the data."""
    service.add_table(path, properties=QUICK_HEARTBEAT)
    service.wait_status(path, "running")
    return wait_for(lambda: at_work(service, path), "tasks to run")


def at_work(service: RunningService, path: Path) -> dict[str, Any] | None:
    operation = service.operation(path)
    assert operation is not None
    detail: dict[str, Any] = service.get(f"/api/v1/operations/{operation['id']}")
    assert detail["status"] == "running", detail["reason"]
    return detail if detail["progress"].get("tasks_total") else None


def assert_done_once(spark: SparkSession, path: Path, instant: str) -> None:
    assert len(hudi_tables.completed(path, instant)) == 1
    assert heavy_facts(spark, path) == HEAVY_FACTS


def test_a_killed_service_finds_its_compaction_again_and_it_is_one_attempt(
    spark: SparkSession, heavy_table: Path, copy_of: Callable[..., Path], start_service: Start
) -> None:
    path = copy_of(heavy_table)
    service = start_service()
    before = given_a_running_compaction(service, path)
    service.kill()
    service.start()
    done = service.wait_status(path, "succeeded", "failed", "pending")
    assert (done["status"], done["attempts"], done["instant"]) == ("succeeded", 1, before["instant"])
    assert_done_once(spark, path, done["instant"])


@pytest.mark.long
def test_a_killed_driver_costs_one_attempt_and_the_next_succeeds(
    spark: SparkSession, heavy_table: Path, copy_of: Callable[..., Path], start_service: Start
) -> None:
    path = copy_of(heavy_table)
    service = start_service(**SHORT_LEASE)
    given_a_running_compaction(service, path)
    service.kill_driver()
    done = service.wait_status(path, "succeeded", "failed")
    assert (done["status"], done["attempts"]) == ("succeeded", 2)
    assert_done_once(spark, path, done["instant"])


@pytest.mark.long
def test_both_killed_at_once_is_resolved_after_the_restart(
    spark: SparkSession, heavy_table: Path, copy_of: Callable[..., Path], start_service: Start
) -> None:
    path = copy_of(heavy_table)
    service = start_service(**SHORT_LEASE)
    given_a_running_compaction(service, path)
    service.kill()
    service.kill_driver()
    service.start()
    done = service.wait_status(path, "succeeded", "failed")
    assert (done["status"], done["attempts"]) == ("succeeded", 2)
    assert_done_once(spark, path, done["instant"])


def test_a_job_whose_service_stays_away_longer_than_the_lease_stops_itself(
    spark: SparkSession, heavy_table: Path, copy_of: Callable[..., Path], start_service: Start
) -> None:
    path = copy_of(heavy_table)
    service = start_service(lease="4", lease_margin="3", retry__first_delay="1")
    running = given_a_running_compaction(service, path)
    service.kill()
    handle = service_handle(service)
    outcome = wait_for(lambda: result_of(service, handle), "the job to stop itself")
    assert outcome.get("error_class") == "lease-expired"
    assert hudi_tables.completed(path, running["instant"]) == []

    service.settings["LAKEHAND_LEASE"] = "30"
    service.start()
    done = service.wait_status(path, "succeeded", "failed")
    assert done["status"] == "succeeded"
    assert_done_once(spark, path, done["instant"])


def service_handle(service: RunningService) -> str:
    [file] = (service.spool / "running").glob("op-*.json")
    return file.stem


def result_of(service: RunningService, handle: str) -> dict[str, Any] | None:
    file = service.spool / "done" / f"{handle}.json"
    return json.loads(file.read_text()) if file.exists() else None
