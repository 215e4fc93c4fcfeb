# SPDX-License-Identifier: Apache-2.0
"""The driver killed by -9, in the middle of rewrites of every format and of other actions, and right after their
effects: each is done once. Broken rewrites are caught meanwhile, and a comparison of rows that died is made up for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import Start
from tests.e2e.every_action import NEEDS, Need, Spoiler
from tests.e2e.formats import DAMAGES, Damage, place
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
SOUND = ("hudi", "delta")  # tables whose jobs are right, and die before they compare the rows
LONG = 400.0


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A table whose first job stops and never goes on."""

    served: Served
    facts: Callable[[], object]
    before: object
    rewrites: Callable[[], int] | None = None  # as the table's own history shows them
    new_files: Callable[[], set[str]] = set


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A lake, a service whose jobs stop at a moment that the test chooses, and the marks that they leave then."""

    spark: SparkSession
    lake: Path
    factory: pytest.TempPathFactory
    service: RunningService
    marks: Path

    def rewrite(self, damage: Damage, name: str, **properties: str) -> Stopped:
        path = place(self.spark, self.lake, self.factory, damage, name)
        values = {"properties": {**(QUICK if damage.format == "hudi" else {}), **properties}}
        need = Need(
            format=damage.format,
            actions=[damage.action],
            spoil=damage.make,
            facts=damage.read,
            values=values,
            name=name,
        )
        known = damage.data_files(path)
        found = self.serve(need, path)
        return replace(found, rewrites=lambda: damage.rewrites(path), new_files=lambda: damage.data_files(path) - known)

    def act(self, need: Need) -> Stopped:
        return self.serve(need, Spoiler(self.spark, self.lake, self.factory).make(need))

    def serve(self, need: Need, path: Path) -> Stopped:
        before = need.facts(self.spark, path)
        [action] = need.actions
        table = self.service.add_table(path, action, format=need.format, **need.values)
        served = Served(service=self.service, table=table, format=need.format, action=action)
        return Stopped(served=served, facts=lambda: need.facts(self.spark, path), before=before)

    def every_kind(self) -> list[Stopped]:
        rewritten = [self.rewrite(damage, f"{damage.format}_{damage.action}") for damage in DAMAGES.values()]
        return [*rewritten, *(self.act(need) for need in one_per_action())]

    def wait_until_stopped(self, count: int) -> None:
        wait_for(lambda: len(list(self.marks.iterdir())) == count, "all jobs to stop", LONG)


def one_per_action() -> list[Need]:
    found = [replace(need, actions=[action]) for need in NEEDS for action in need.actions if action in KILLED]
    assert len(found) == len(KILLED)
    return [quick(need) if need.format == "hudi" else need for need in found]


def quick(need: Need) -> Need:
    values: dict[str, Any] = dict(need.values)
    return replace(need, values={**values, "properties": {**values["properties"], **QUICK}})


@pytest.fixture
def scene(
    spark: SparkSession, lake: Path, start_service: Start, *, tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest,
) -> Scene:  # fmt: skip
    marks = install_stops(tmp_path, monkeypatch)
    monkeypatch.setenv("STOP", request.param)
    service = start_service(
        plugins=PLUGINS, spark='{"threads": "24"}', retry__first_delay="1", retry__not_yet_delay="5"
    )
    return Scene(spark=spark, lake=lake, factory=tmp_path_factory, service=service, marks=marks)


@pytest.mark.parametrize("scene", ["middle"], indirect=True)
def test_service_and_driver_that_are_killed_in_the_middle_leave_every_rewrite_and_action_done_once(
    scene: Scene,
) -> None:
    stopped = scene.every_kind()
    scene.wait_until_stopped(len(stopped))
    for one in stopped:
        assert not one.rewrites or (one.rewrites() == 0 and one.new_files()), f"{one.served} is not in the middle"

    scene.service.kill()
    scene.service.kill_driver()
    scene.service.start()

    for one in stopped:
        wait_for(one.served.is_at_rest, f"{one.served} to come to rest", LONG)
    for one in stopped:
        assert_done_once(one, attempts=2)


@pytest.mark.parametrize("scene", ["committed"], indirect=True)
def test_a_driver_that_is_killed_right_after_the_effects_leaves_each_done_once_and_its_rows_are_compared(
    scene: Scene,
) -> None:
    stopped = scene.every_kind()
    broken = [scene.rewrite(one, f"broken_{one.format}", **{"verify-rows": "checksum"}) for one in DAMAGES.values()]
    sound = [scene.rewrite(DAMAGES[one], f"sound_{one}", **{"verify-rows": "checksum"}) for one in SOUND]
    for one in broken:
        assert_caught(one.served)
    critical = {("rows-differ", one.served.table, "critical") for one in broken}
    wait_for(lambda: open_alerts(scene.service) == critical, "the alerts to open", 90)
    scene.wait_until_stopped(len(stopped) + len(sound))

    scene.service.kill_driver()

    for one in [*stopped, *sound]:
        wait_for(one.served.is_at_rest, f"{one.served} to come to rest", LONG)
    for one in stopped:
        assert_done_once(one, attempts=1)
    for one in sound:
        assert_done_once(one, attempts=2)
        assert detail(one.served)["result"]["verified_rows"]["outcome"] == "equal"


def assert_done_once(one: Stopped, attempts: int) -> None:
    """Hudi cannot go on with a log compaction that was begun: its plan is rolled back, and another one is made."""
    one.served.look_again()
    found = one.served.service.operations(table=one.served.table, action=one.served.action)
    given_up = [each for each in found if each["status"] == "dropped"]
    assert [each["status"] for each in found if each not in given_up] == ["succeeded"], f"{one.served}: {found}"
    assert not given_up or (attempts > 1 and one.served.action == "log-compaction"), f"{one.served}: {found}"
    in_all = sum(each["attempts"] for each in found)
    if one.rewrites is None and attempts > 1:
        assert in_all >= attempts, f"{one.served}: {found}"
    else:
        assert in_all == attempts, f"{one.served}: {found}"
    assert one.rewrites is None or one.rewrites() == 1, f"{one.served}: {found}"
    assert one.facts() == one.before, str(one.served)


def assert_caught(one: Served) -> None:
    """Its table is paused with the reason, and nothing of it is tried again."""
    wait_for(lambda: detail(one).get("status") in ("failed", "succeeded"), f"{one} to be caught", LONG)
    failed = detail(one)
    rows, table = failed["result"]["verified_rows"], one.service.get(f"/api/v1/tables/{one.table}")
    assert (failed["status"], failed["failure"]["reason"], failed["attempts"]) == ("failed", "rows-differ", 1), failed
    assert rows["outcome"] == "unequal"
    assert rows["before"]["checksum"] != rows["after"]["checksum"]
    assert (table["paused"], rows["reason"] in table["pause_reason"]) == (True, True)
    assert rows["reason"] in one.service.get(f"/api/v1/tables/{one.table}/explain")["summary"]


def detail(one: Served) -> dict[str, Any]:
    """The newest operation; empty while there is none."""
    found = one.service.operations(table=one.table, action=one.action)
    return dict(one.service.get(f"/api/v1/operations/{found[0]['id']}")) if found else {}


def open_alerts(service: RunningService) -> set[tuple[str, int, str]]:
    found = service.get("/api/v1/alerts")["items"]
    return {(one["kind"], one["table"], one["severity"]) for one in found if one["kind"] == "rows-differ"}
