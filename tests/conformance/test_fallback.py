# SPDX-License-Identifier: Apache-2.0
"""The service is away: the writer does the plan that was left and its own, and the service comes back in the middle."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.writer import file_lock, hudi_options
from tests import hudi_tables as hudi
from tests.conformance.served import register, settle
from tests.conformance.timelines import done, wait_each_done_once
from tests.conformance.writers import HERE, writer
from tests.e2e.conftest import Start
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
BESIDE = 8  # commits while the service comes back


def lock_of(path: Path) -> dict[str, str]:
    return file_lock(str(path / ".hoodie" / "locks"))


def options_of(service: RunningService, path: Path, *actions: str) -> dict[str, str]:
    return hudi_options(
        service.url, hudi_version=HERE, actions=actions, index="SIMPLE", lock=lock_of(path), fallback="inline",
        max_delta_commits=2, max_commits=3, timeout=10,
    )  # fmt: skip


def in_the_middle(write: Callable[[int], None], service: RunningService, numbers: range) -> None:
    """The writer goes on while the service starts."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(write, numbers[0])
        service.start()
        begun.result()
        for number in numbers[1:]:
            write(number)


def test_a_writer_that_falls_back_and_the_service_that_returns_complete_each_plan_once(
    spark: SparkSession, lake: Path, start_service: Start
) -> None:
    path, service = lake / "trips", start_service()
    connected = options_of(service, path, "compaction", "clustering", "clean")
    assert connected["hoodie.compact.inline"] == "false"
    with writer(HERE, spark, path, connected) as live:
        live.write(1)
        table = register(service, path, lock_of(path), scheduling="writer")
        service.post(f"/api/v1/tables/{table}/pause")
        for number in (2, 3):
            live.write(number)
        left = [instant for instant, action in hudi.pending(path) if action == "compaction"]
        assert len(left) == 1
        service.post(f"/api/v1/tables/{table}/resume")
        service.kill()

        away = options_of(service, path, "compaction", "clustering", "clean")
        assert away["hoodie.compact.inline"] == "true"
        for number in (4, 5, 6):
            live.write(number, **away)
        assert len(hudi.completed(path, left[0])) == 1, "the plan that was left is done by the writer"
        assert done(path)["compaction"] >= 2, "and so is its own"
        assert live.read(spark) == live.expected(6)

        in_the_middle(lambda number: live.write(number, **away), service, range(7, 7 + BESIDE))
        live.write(7 + BESIDE, **options_of(service, path, "compaction", "clustering", "clean"))
        settle(service, path)
        assert live.read(spark) == live.expected(7 + BESIDE)
    wait_each_done_once(path)


def test_a_driver_that_is_still_at_work_keeps_its_plan_from_a_writer_that_falls_back(
    spark: SparkSession, lake: Path
) -> None:
    """As Hudi has it: the heartbeat of whoever runs a compaction. The write itself succeeds."""
    path = lake / "trips"
    own = {**hudi.scheduling_compaction(2), "hoodie.index.type": "SIMPLE"}
    away = hudi_options(
        "http://127.0.0.1:9", hudi_version=HERE, index="SIMPLE", lock=lock_of(path), fallback="inline", timeout=0.1
    )
    with writer(HERE, spark, path, {**away, "hoodie.compact.inline": "false", **own}) as live:
        for number in (1, 2, 3):
            live.write(number)
        [(plan, _)] = hudi.pending(path)
        heartbeat = path / ".hoodie" / ".heartbeat" / plan
        heartbeat.parent.mkdir(exist_ok=True)
        heartbeat.touch()
        live.write(4, **{"hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "false"})

        assert [instant for instant, _ in hudi.pending(path)] == [plan]
        assert live.read(spark) == live.expected(4)

        heartbeat.unlink()
        live.write(5, **{"hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "false"})
        assert len(hudi.completed(path, plan)) == 1
