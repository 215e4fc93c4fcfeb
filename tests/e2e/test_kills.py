# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the service, which stays away for longer than the lease of a job that waits in its driver."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import hudi_tables
from tests.e2e.conftest import Start
from tests.e2e.stopping import PLUGINS, install_stops
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_job_whose_service_stays_away_longer_than_the_lease_stops_itself(
    spark: SparkSession,
    light_table: Path,
    copy_of: Callable[..., Path],
    start_service: Start,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = install_stops(tmp_path, monkeypatch)
    monkeypatch.setenv("STOP", "canceled")
    path = copy_of(light_table)
    service = start_service(plugins=PLUGINS, lease="10", lease_margin="3", retry__first_delay="1")
    service.add_table(path)
    wait_for((marks / path.name).exists, "the job to wait")
    service.kill()
    [running] = (service.spool / "running").glob("op-*.json")

    outcome = wait_for(lambda: result_of(service, running.stem), "the job to stop itself")
    [(instant, _)] = hudi_tables.pending(path)
    assert (outcome["error_class"], hudi_tables.completed(path, instant)) == ("lease-expired", [])

    service.settings["LAKEHAND_LEASE"] = "60"
    service.start()
    done = service.wait_status(path, "succeeded", "failed")
    assert (done["status"], done["attempts"], done["instant"]) == ("succeeded", 2, instant)
    assert len(hudi_tables.completed(path, instant)) == 1
    assert hudi_tables.rows(spark, path) == hudi_tables.expected(3)


def result_of(service: RunningService, handle: str) -> dict[str, Any] | None:
    file = service.spool / "done" / f"{handle}.json"
    return json.loads(file.read_text()) if file.exists() else None
