# SPDX-License-Identifier: Apache-2.0
"""All formats in one service and one driver, through kills of the driver."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import Start
from tests.e2e.formats import DAMAGES, Damage, Facts, table_reference
from tests.e2e.stopping import PLUGINS, install_stops
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [pytest.mark.spark, pytest.mark.long]
HEAVY = 40_000  # rows of each commit: a rewrite that can be caught in the middle


def spoiled(spark: SparkSession, lake: Path, damage: Damage, name: str, *rows: int) -> tuple[Path, Facts]:
    path = table_reference(lake, damage.format, name)
    damage.make(spark, path, *rows)
    return path, damage.read(spark, path)


def serve(service: RunningService, damage: Damage, path: Path) -> None:
    service.add_table(path, damage.action, format=damage.format)


@pytest.fixture
def stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stopping plugin as an installed distribution, known to the services that this test starts."""
    return install_stops(tmp_path, monkeypatch)


def serve_until_stopped(start_service: Start, stops: Path, tables: list[tuple[Damage, Path, Facts]]) -> RunningService:
    """The driver has begun with every table, and will go on with none."""
    service = start_service(plugins=PLUGINS, spark='{"threads": "6"}', retry__first_delay="1")
    for damage, path, _ in tables:
        serve(service, damage, path)
    wait_for(lambda: len(list(stops.iterdir())) == len(tables), "all rewrites to stop", 300)
    return service


def assert_rewritten_once(
    spark: SparkSession, service: RunningService, table: tuple[Damage, Path, Facts], attempts: int
) -> None:
    damage, path, facts = table
    ended = service.wait_status(path, "succeeded", "failed", action=damage.action)
    found = (ended["status"], ended["attempts"], damage.rewrites(path), damage.read(spark, path))
    assert found == ("succeeded", attempts, 1, facts), f"{damage.format}: {ended}"


@pytest.mark.long
def test_a_driver_that_is_killed_right_after_the_commits_leaves_one_rewrite_in_each_format(
    spark: SparkSession, lake: Path, start_service: Start, stops: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOP", "committed")
    tables = [(d, *spoiled(spark, lake, d, d.format)) for d in DAMAGES.values()]
    service = serve_until_stopped(start_service, stops, tables)

    service.kill_driver()

    for table in tables:
        assert_rewritten_once(spark, service, table, attempts=1)


@pytest.mark.long
def test_a_driver_that_is_killed_in_the_middle_of_four_rewrites_leaves_one_rewrite_in_each_format(
    spark: SparkSession, lake: Path, start_service: Start, stops: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOP", "writing")
    tables = [(d, *spoiled(spark, lake, d, d.format, HEAVY)) for d in DAMAGES.values() if d.format != "hudi"]
    known = {damage.format: damage.data_files(path) for damage, path, _ in tables}
    service = serve_until_stopped(start_service, stops, tables)
    for damage, path, _ in tables:
        assert damage.data_files(path) > known[damage.format], f"{damage.format}: nothing is written yet"
        assert damage.rewrites(path) == 0, f"{damage.format}: it is committed already"

    service.kill_driver()

    for table in tables:
        assert_rewritten_once(spark, service, table, attempts=2)
