# SPDX-License-Identifier: Apache-2.0
"""Rows on request through a real service: broken rewrites of all formats are caught, and a lost check is made up."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e import formats
from tests.e2e.conftest import Start
from tests.e2e.formats import DAMAGES, Damage, table_reference
from tests.e2e.stopping import PLUGINS, install_stops
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
COMPARED = {"verify-rows": "checksum"}
SOUND = ("hudi", "delta")  # tables whose jobs are right, and die before they compare the rows


def serve(service: RunningService, damage: Damage, path: Path) -> int:
    return service.add_table(path, damage.action, format=damage.format, properties=COMPARED)


def detail(service: RunningService, path: Path, damage: Damage, *statuses: str) -> dict[str, Any]:
    found = service.wait_status(path, *statuses, action=damage.action)
    answer: dict[str, Any] = service.get(f"/api/v1/operations/{found['id']}")
    return answer


def assert_caught(service: RunningService, damage: Damage, path: Path, id: int) -> None:
    failed = detail(service, path, damage, "failed", "succeeded")
    rows, table = failed["result"]["verified_rows"], service.get(f"/api/v1/tables/{id}")
    assert (failed["status"], failed["failure"]["reason"], failed["attempts"]) == ("failed", "rows-differ", 1), failed
    assert rows["outcome"] == "unequal"
    assert rows["before"]["checksum"] != rows["after"]["checksum"]
    assert (table["paused"], rows["reason"] in table["pause_reason"]) == (True, True)
    assert rows["reason"] in service.get(f"/api/v1/tables/{id}/explain")["summary"]


def open_alerts(service: RunningService) -> set[tuple[str, int, str]]:
    found = service.get("/api/v1/alerts")["items"]
    return {(one["kind"], one["table"], one["severity"]) for one in found if one["kind"] == "rows-differ"}


def test_broken_rewrites_of_all_formats_are_caught_and_a_check_that_died_is_made_up(
    spark: SparkSession, lake: Path, start_service: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = install_stops(tmp_path, monkeypatch)
    monkeypatch.setenv("STOP", "broken")
    monkeypatch.setattr(formats, "COMMITS", 4)
    tables = [(damage, table_reference(lake, damage.format, damage.format)) for damage in DAMAGES.values()]
    for damage, path in tables:
        damage.make(spark, path, *([] if damage.format == "hudi" else [200]))
    sound = [(DAMAGES[one], Path(shutil.copytree(lake / one, lake / f"sound-{one}"))) for one in SOUND]
    service = start_service(plugins=PLUGINS, spark='{"threads": "4"}', retry__first_delay="1")

    ids = {path: serve(service, damage, path) for damage, path in tables}
    for damage, path in sound:
        serve(service, damage, path)

    for damage, path in tables:
        assert_caught(service, damage, path, ids[path])
    critical = {("rows-differ", number, "critical") for number in ids.values()}
    wait_for(lambda: open_alerts(service) == critical, "the alerts to open", 90)
    wait_for(lambda: len(list(marks.iterdir())) == len(sound), "the other two to stop", 120)
    service.kill_driver()
    for damage, path in sound:
        done = detail(service, path, damage, "succeeded", "failed")
        rows = done["result"]["verified_rows"]
        assert (done["status"], done["attempts"], rows["outcome"]) == ("succeeded", 2, "equal"), done
        assert damage.rewrites(path) == 1
