# SPDX-License-Identifier: Apache-2.0
"""All formats in one service and one driver: served at once, and through kills of the driver."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import Start
from tests.e2e.formats import DAMAGES, Damage, Facts, place_of
from tests.e2e.service import RunningService, wait_for

pytestmark = pytest.mark.spark
EACH = 4
HEAVY = 40_000  # rows of each commit: a rewrite that can be caught in the middle


def spoiled(spark: SparkSession, lake: Path, damage: Damage, name: str) -> tuple[Path, Facts]:
    path = place_of(lake, damage.format, name)
    damage.make(spark, path)
    return path, damage.read(spark, path)


def serve(service: RunningService, damage: Damage, path: Path) -> None:
    service.add_table(path, damage.action, format=damage.format)


def test_five_formats_with_four_tables_each_are_served_by_one_driver(
    spark: SparkSession, lake: Path, start_service: Start, record_property: Callable[[str, object], None]
) -> None:
    tables = [(d, *spoiled(spark, lake, d, f"{d.format}_{n}")) for d in DAMAGES.values() for n in range(EACH)]
    service = start_service(spark='{"threads": "6"}')
    for damage, path, _ in tables:
        serve(service, damage, path)

    most = watch_until_done(service, len(tables))

    ended = service.operations()
    assert {(o["status"], o["attempts"]) for o in ended} == {("succeeded", 1)}, [o["reason"] for o in ended]
    assert [damage.read(spark, path) for damage, path, _ in tables] == [facts for _, _, facts in tables]
    assert all(damage.rewrites(path) == 1 for damage, path, _ in tables)
    record_property("peak RSS of the driver in MB", most)


def watch_until_done(service: RunningService, count: int) -> int:
    """Until every table was served; the most memory that the driver had, Python and JVM together."""
    most, boots = 0, set()

    def is_done() -> bool:
        nonlocal most
        facts = service.driver_facts()
        most = max(most, int(facts.get("rss_mb") or 0))
        boots.add(facts.get("boot"))
        return len(service.operations(status="succeeded,failed,dropped")) >= count

    wait_for(is_done, f"{count} operations to end", 480)
    assert len(boots - {None}) == 1, "one driver served them all"
    return most


@pytest.fixture
def stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stopping plugin as an installed distribution, known to the services that this test starts."""
    site, marks = tmp_path / "site", tmp_path / "marks"
    marks.mkdir()
    shutil.copytree(Path(__file__).parent / "stops", site)
    info = site / "lakehand_stops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lakehand-stops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lakehand.process_factories]\nstopping = lakehand_stops:StoppingFactory\n")
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("STOPS", str(marks))
    return marks


PLUGINS = '{"process-factories": {"stopping": {"priority": 10}}}'


def test_a_driver_that_is_killed_right_after_the_commits_leaves_one_rewrite_in_each_format(
    spark: SparkSession, lake: Path, start_service: Start, stops: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOP_AFTER_COMMIT", "yes")
    tables = [(d, *spoiled(spark, lake, d, d.format)) for d in DAMAGES.values()]
    service = start_service(plugins=PLUGINS, spark='{"threads": "6"}')
    for damage, path, _ in tables:
        serve(service, damage, path)
    wait_for(lambda: len(list(stops.glob("*.committed"))) == len(tables), "all tables to be rewritten", 300)

    service.kill_driver()

    ended = [service.wait_status(path, "succeeded", "failed", action=d.action) for d, path, _ in tables]
    assert [(o["status"], o["attempts"]) for o in ended] == [("succeeded", 1)] * len(tables), ended
    assert [damage.rewrites(path) for damage, path, _ in tables] == [1] * len(tables)
    assert [damage.read(spark, path) for damage, path, _ in tables] == [facts for _, _, facts in tables]


@pytest.mark.parametrize("format", ["iceberg", "delta", "paimon", "lance"])
def test_a_driver_that_is_killed_in_the_middle_of_a_rewrite_leaves_one_rewrite(
    spark: SparkSession, lake: Path, start_service: Start, format: str
) -> None:
    damage = DAMAGES[format]
    path = place_of(lake, format, format)
    damage.make(spark, path, HEAVY)
    facts, known = damage.read(spark, path), damage.data_files(path)
    service = start_service()
    serve(service, damage, path)
    driver = wait_for(service.driver, "the driver", 120)
    group = os.getpgid(driver.pid)

    wait_for(lambda: damage.data_files(path) - known, "the first file of the rewrite", pace=0.005)
    os.killpg(group, signal.SIGKILL)

    ended = service.wait_status(path, "succeeded", "failed", action=damage.action)
    assert (ended["status"], ended["attempts"]) == ("succeeded", 2), ended["reason"]
    assert damage.rewrites(path) == 1
    assert damage.read(spark, path) == facts
