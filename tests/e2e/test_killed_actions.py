# SPDX-License-Identifier: Apache-2.0
"""The driver killed by -9 while actions that are no rewrites run, and right after their effects: each is done once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import Start
from tests.e2e.every_action import NEEDS, Need, Spoiler
from tests.e2e.served import Served
from tests.e2e.stopping import PLUGINS, install_stops
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.timeout(1200),
]
KILLED = frozenset(
    {"archive", "rollback-failed-writes", "log-compaction", "indexing", "partition-ttl", "compute-statistics",
     "compute-partition-statistics", "checkpoint", "clean-log", "expire-partitions", "expire-tags", "optimize-indices"}
)  # fmt: skip
# A killed job holds Hudi's lock until it expires, and its heartbeat for twice the interval.
QUICK = {"hoodie.write.lock.filesystem.expire": "1", "hoodie.client.heartbeat.interval_in_ms": "5000"}


def one_per_action() -> list[Need]:
    found = [replace(need, actions=[action]) for need in NEEDS for action in need.actions if action in KILLED]
    return [quick(need) if need.format == "hudi" else need for need in found]


def quick(need: Need) -> Need:
    values: dict[str, Any] = dict(need.values)
    return replace(need, values={**values, "properties": {**values["properties"], **QUICK}})


@pytest.mark.parametrize("moment", ["middle", "committed"])
def test_a_driver_that_is_killed_leaves_each_action_done_once(
    moment: str,
    spark: SparkSession,
    lake: Path,
    start_service: Start,
    *,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs, stops = one_per_action(), install_stops(tmp_path, monkeypatch)
    assert len(needs) == len(KILLED)
    monkeypatch.setenv("STOP", moment)
    spoiler = Spoiler(spark, lake, tmp_path_factory)
    before = {need.actions[0]: need.facts(spark, spoiler.make(need)) for need in needs}
    service = start_service(
        plugins=PLUGINS, spark=f'{{"threads": "{len(needs) + 1}"}}', retry__first_delay="1", retry__not_yet_delay="5"
    )
    served = [serve(service, need, lake) for need in needs]
    wait_for(lambda: len(list(stops.iterdir())) == len(needs), "all jobs to stop", 400)

    service.kill_driver()

    for one in served:
        wait_for(one.is_at_rest, f"{one} to come to rest", 480)
    for one in served:
        one.look_again()
        assert_done_once(one, attempts=1 if moment == "committed" else 2)
    assert {need.actions[0]: need.facts(spark, need.reference(lake)) for need in needs} == before


def serve(service: RunningService, need: Need, lake: Path) -> Served:
    table = service.add_table(need.reference(lake), *need.actions, format=need.format, **need.values)
    return Served(service=service, table=table, format=need.format, action=need.actions[0])


def assert_done_once(one: Served, attempts: int) -> None:
    """Hudi cannot go on with a log compaction that was begun: its plan is rolled back, and another one is made."""
    found = one.service.operations(table=one.table, action=one.action)
    given_up = [each for each in found if each["status"] == "dropped"]
    assert [each["status"] for each in found if each not in given_up] == ["succeeded"], f"{one}: {found}"
    assert not given_up or (attempts > 1 and one.action == "log-compaction"), f"{one}: {found}"
    in_all = sum(each["attempts"] for each in found)
    assert in_all >= attempts if attempts > 1 else in_all == 1, f"{one}: {found}"
