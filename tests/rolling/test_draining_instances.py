# SPDX-License-Identifier: Apache-2.0
"""Real instances that drain, with a lease that is far longer than the tests: whatever moves was handed over.

The plans and their effects are a stand-in's: see ``plan_folders``.
"""

import signal
from pathlib import Path

import httpx
import pytest

from tests.kit.polling import wait_for
from tests.kit.service import TLS, RunningService
from tests.rest.parts import wire
from tests.rolling.commands import drain
from tests.rolling.conftest import Fleet
from tests.rolling.plan_folders import effects

pytestmark = pytest.mark.long
INSTANT = "20261114191013982"
LONG = "30m"


def plan(fleet: Fleet, service: RunningService, name: str) -> Path:
    """A table with a plan that the service was told of."""
    table = fleet.folder / "lake" / name
    for folder in ("plans", "effects"):
        (table / folder).mkdir(parents=True)
    (table / "plans" / INSTANT).touch()
    answer = httpx.get(service.url + wire(basepath=str(table), table_name=name), timeout=30, verify=TLS).json()
    assert answer["stored"] is True, answer
    return table


def states(service: RunningService) -> list[str]:
    """Of all instances, in the order of their first starts."""
    return [one["state"] for one in service.get("/api/v1/instances")["items"]]


def ready(service: RunningService) -> httpx.Response:
    return httpx.get(service.url + "/health/ready", timeout=30, verify=TLS)


def live(service: RunningService) -> int:
    return sum(len(service.operations(status=status)) for status in ("submitted", "running"))


def test_a_drained_instance_hands_all_its_work_to_another_one_at_once(fleet: Fleet) -> None:
    one = fleet.add("one", seconds=600, lease=LONG)
    tables = [plan(fleet, one, f"trips{n}") for n in range(4)]
    wait_for(lambda: live(one) == 4, "two that run and two that wait on the engine")
    two = fleet.add("two", lease=LONG)

    assert drain(one, "--wait", "--timeout", "0")["state"] == "drained"

    wait_for(lambda: all(effects(table) for table in tables), "the effects")
    assert [effects(table) for table in tables] == [[INSTANT]] * 4
    wait_for(lambda: states(two) == ["drained", "serving"], "the next reports of both")


def test_a_draining_instance_answers_writers_and_says_that_it_is_not_ready(fleet: Fleet) -> None:
    one = fleet.add("one", lease=LONG)
    drain(one)

    answer = ready(one)
    assert (answer.status_code, answer.json()["parts"]["instance"]) == (503, "draining")
    assert one.get("/health/live")["status"] == "ok"
    table = plan(fleet, one, "trips")
    two = fleet.add("two", lease=LONG)
    wait_for(lambda: effects(table), "the other instance")
    assert one.get("/api/v1/drain")["operations"] == 0

    assert drain(one, "--undo")["state"] == "serving"
    assert ready(one).status_code == 200
    two.stop()
    again = plan(fleet, one, "orders")
    wait_for(lambda: effects(again), "the instance that takes on work again")


def test_sigterm_lets_running_work_end_while_writers_are_answered(fleet: Fleet) -> None:
    one = fleet.add("one", seconds=5, drain_timeout="5m", lease=LONG)
    running = plan(fleet, one, "trips")
    wait_for(lambda: one.operations(status="running"), "the job")
    assert one.process is not None

    one.process.send_signal(signal.SIGTERM)
    wait_for(lambda: ready(one).status_code == 503, "the signal")
    later = plan(fleet, one, "orders")
    assert one.process.wait(120) == 0

    assert effects(running) == [INSTANT]
    two = fleet.add("two", lease=LONG)
    wait_for(lambda: effects(later), "the plan that came meanwhile")
    wait_for(lambda: states(two) == ["stopped", "serving"], "the first report of the other one")
