# SPDX-License-Identifier: Apache-2.0
"""Each action of each format through one service and one driver: decided, done once, proved, not wanted again."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import Start
from tests.e2e.every_action import NEEDS, Spoiler
from tests.e2e.served import Driver, every_action, register
from tests.kit.polling import wait_for
from tests.kit.receiver import Receiver, receiving
from tests.kit.service import RunningService
from tests.listeners import PortWatch

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
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
    assert {(need.format, action) for need in NEEDS for action in need.actions} == set(every_action())
    spoiler = Spoiler(spark, lake, tmp_path_factory)
    for need in NEEDS:
        spoiler.make(need)
    before = {need: spoiler.facts(need) for need in NEEDS}
    service = start_service(
        spark='{"threads": "4"}', telemetry__otlp_endpoint=receiver.url, telemetry__openlineage_url=receiver.url
    )
    served = [one for need in NEEDS for one in register(service, need, need.reference(lake))]

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
