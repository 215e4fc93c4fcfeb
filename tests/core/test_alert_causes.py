# SPDX-License-Identifier: Apache-2.0
"""What of queues, engines, plugins and the disk is worth an alert."""

from datetime import datetime, timedelta, timezone

from lakehand.core.loops.alerts import (
    EngineHistory,
    disk_causes,
    lost_cause,
    plugin_causes,
    queue_causes,
    table_causes,
)
from lakehand.core.ports import LostLease, PluginReport, Troubles
from lakehand.spi.engines import EngineHealth
from tests.kit.sentences import Sentences

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
UP, DOWN = EngineHealth(is_up=True, detail="idle"), EngineHealth(is_up=False, detail="no Java")


def test_a_queue_whose_oldest_operation_waits_too_long_is_stuck() -> None:
    depth = {"slow": (3, NOON - HOUR), "quick": (9, NOON - MINUTE), "later": (1, None)}

    [cause] = queue_causes(depth, NOON, HOUR)

    assert (cause.key, cause.queue, cause.severity) == ("queue-stuck:slow", "slow", "critical")


def problem(history: EngineHistory, health: EngineHealth, minutes: float, *, is_wanted: bool = True) -> str:
    return history.problem(health, is_wanted=is_wanted, now=NOON + minutes * MINUTE, longest=5 * MINUTE)


def test_an_engine_that_is_down_while_work_waits_needs_a_person() -> None:
    history = EngineHistory()

    assert [problem(history, DOWN, 0), problem(history, DOWN, 4)] == ["", ""]
    assert "no Java" in problem(history, DOWN, 5)
    assert problem(history, UP, 6) == ""
    assert problem(history, DOWN, 7) == ""


def test_an_engine_that_is_down_without_work_needs_nobody() -> None:
    history = EngineHistory()

    assert [problem(history, DOWN, minutes, is_wanted=False) for minutes in (0, 60)] == ["", ""]


def test_an_engine_that_keeps_dying_needs_a_person(sentences: Sentences) -> None:
    history = EngineHistory()

    def health(restarts: int) -> EngineHealth:
        return EngineHealth(is_up=True, detail="runs", restarts=restarts)

    assert [problem(history, health(count), count) for count in (0, 1, 2)] == ["", "", ""]
    sentences.check("an engine keeps dying", problem(history, health(3), 3), times=3)
    assert problem(history, health(3), 30) == ""


def report(state: str) -> PluginReport:
    return PluginReport(kind="engine", name="odd", distribution="odd", version="1", state=state, reason="it hangs")


def test_a_plugin_that_is_broken_failing_or_stuck_is_a_cause_of_this_instance() -> None:
    found = {state: list(plugin_causes([report(state)], "here")) for state in ("on", "off", "slow", "broken", "stuck")}

    assert [state for state, causes in found.items() if causes] == ["broken", "stuck"]
    assert found["stuck"][0].instance == "here"


def test_a_disk_that_fills_up_is_a_cause_and_so_is_a_database_that_takes_no_writes() -> None:
    assert list(disk_causes(0.05, "", "here", 0.05)) == []
    [full] = disk_causes(0.049, "", "here", 0.05)
    [refused] = disk_causes(0.5, "the disk is full", "here", 0.05)
    assert full.key == refused.key == "disk-full:here"
    assert "4.9% " in full.message


def test_the_lost_leases_of_one_instance_are_one_cause() -> None:
    lost = [LostLease(message="taken over from there", event=number) for number in (1, 2)]

    [cause] = table_causes(Troubles(lost_leases=lost))

    assert cause == lost_cause(lost[1])
    assert cause.key == "lease-lost:there"
