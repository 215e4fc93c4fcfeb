# SPDX-License-Identifier: Apache-2.0
"""Each action of each format through one service and one driver: decided, done once, proved, not wanted again."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import Start
from tests.e2e.every_action import NEEDS, Need, Spoiler
from tests.kit.polling import wait_for
from tests.kit.receiver import Receiver, receiving
from tests.kit.service import RunningService
from tests.listeners import PortWatch

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.timeout(1200),
]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Where the service sends traces and lineage."""
    with receiving() as one:
        yield one


def test_every_action_of_every_format_is_decided_upon_done_once_and_not_wanted_again(
    spark: SparkSession,
    lake: Path,
    start_service: Start,
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
    *,
    receiver: Receiver,
) -> None:
    assert Counter(need.format for need in NEEDS) == dict.fromkeys(("hudi", "iceberg", "delta", "paimon", "lance"), 4)
    spoiler = Spoiler(spark, lake, tmp_path_factory)
    before = {need: need.facts(spark, spoiler.make(need)) for need in NEEDS}
    service = start_service(
        spark='{"threads": "4"}', telemetry__otlp_endpoint=receiver.url, telemetry__openlineage_url=receiver.url
    )
    served = [one for need in NEEDS for one in register(service, need, lake)]

    driver = Driver(service)
    with PortWatch(driver.session) as ports:
        for one in served:
            wait_for(lambda: driver.is_watched() and one.is_at_rest(), f"{one} to come to rest", 480)  # noqa: B023
    assert len(driver.boots) == 1, "one driver served them all"
    record_property("addresses that the driver listened on", sorted(ports.seen))
    assert ports.looks > 10
    assert ports.open_to_others == set(), "nobody on another machine can reach a driver"
    record_property("peak RSS of the driver in MB", driver.peak)
    for one in served:
        one.look_again()
    for one in served:
        text = one.story()
        record_property(str(one), " | ".join(text))
        assert all(re.search(r"\d", sentence) for sentence in text), text
    assert {need: need.facts(spark, need.reference(lake)) for need in NEEDS} == before
    check_telemetry(service, receiver)


def check_telemetry(service: RunningService, receiver: Receiver) -> None:
    """Each operation is one whole trace, and one run that began and ended in the lineage."""
    done = [one for one in service.operations() if one["status"] == "succeeded"]
    assert service.stop() == 0  # sends what waits
    traces = Counter(span.trace_id for span in receiver.spans if span.name in ("decide", "verify"))
    assert len(traces) >= len(done) > 10
    assert set(traces.values()) == {2}
    ends = Counter(run["eventType"] for run in receiver.runs)
    assert ends["COMPLETE"] == len(done)
    assert ends["START"] == ends["COMPLETE"] + ends["FAIL"] + ends["ABORT"]


class Driver:
    """What is seen of the service's driver: how often it was started, and the most memory that it had."""

    def __init__(self, service: RunningService) -> None:
        self.service = service
        self.boots: set[str] = set()
        self.peak = 0

    def session(self) -> int | None:
        return int(self.service.driver_facts().get("jvm") or 0) or None

    def is_watched(self) -> bool:
        facts = self.service.driver_facts()
        self.peak = max(self.peak, int(facts.get("rss_mb") or 0))  # Python and JVM together
        self.boots |= {facts["boot"]} if "boot" in facts else set()
        return True


@dataclass(frozen=True, kw_only=True)
class Served:
    """One action of a table in the care of a service."""

    service: RunningService
    table: int
    format: str
    action: str

    def __str__(self) -> str:
        return f"{self.format} {self.action}"

    def explained(self) -> Any:
        actions = self.service.get(f"/api/v1/tables/{self.table}/explain")["actions"]
        return next(one for one in actions if one["action"] == self.action)

    def is_at_rest(self) -> bool:
        """It was done, and evaluated since."""
        now = self.explained()
        last = now["last_finished"]
        return last is not None and not now["unfinished"] and now["last_look"] > last["finished_at"]

    def look_again(self) -> None:
        """Somebody asks for another decision, and waits until it was made."""
        last = self.explained()["last_look"]
        self.service.post(f"/api/v1/tables/{self.table}/look")
        wait_for(lambda: self.explained()["last_look"] > last and self.is_at_rest(), f"another look for {self}")

    def story(self) -> list[str]:
        """Why it was done, what was done, and why it is not done again: once, at the first attempt, with an effect."""
        found = self.service.operations(table=self.table, action=self.action)
        # What an unfinished rewrite of the same table began with goes after it.
        assert len(found) == 1 or (self.action == "expire-snapshots" and len(found) == 2), found
        assert {(one["status"], one["attempts"]) for one in found} == {("succeeded", 1)}, found
        done = self.service.get(f"/api/v1/operations/{found[-1]['id']}")
        assert done["result"].get("changed", True) is True, done  # Hudi says which instants
        [why] = [event["message"] for event in done["events"] if event["kind"] == "operation.stored"]
        return [why, done["reason"], self.explained()["now"]]


def register(service: RunningService, need: Need, lake: Path) -> list[Served]:
    table = service.add_table(need.reference(lake), *need.actions, format=need.format, **need.values)
    return [Served(service=service, table=table, format=need.format, action=action) for action in need.actions]
