# SPDX-License-Identifier: Apache-2.0
"""A plugin that raises, or answers nonsense, delays its own operations and tables only, with its name on the reason."""

from collections.abc import Callable
from typing import Any

import pytest

from lakehand.domain.operations import Status
from lakehand.domain.processes import Failure, Finding, Skip, TableProcess, Verdict
from lakehand.domain.tables import Table
from lakehand.spi import EngineState
from tests.core.world import CLEAN, HUDI, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

T1 = "20261115110000000"


def raising(*_: object, **__: object) -> Any:
    raise ValueError("on purpose")


def answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


def break_for(world: World, bad: Table, method: str, broken: Callable[..., Any]) -> None:
    """The factory is itself for all tables but one."""
    well = getattr(world.factory, method)

    def either(runtime: Any, *args: Any) -> Any:
        return (broken if runtime.table.id == bad.id else well)(runtime, *args)

    vars(world.factory)[method] = either


def two_planned(world: World) -> tuple[Table, Table]:
    bad, good = world.add_table("bad"), world.add_table("good")
    for table in (bad, good):
        world.tables.plan(table.location, T1)
    return bad, good


WRONG_TRIGGERS = {
    "a trigger raises": raising,
    "a trigger returns nothing": answering(None),
    "a trigger names another action": answering(TableProcess(action=CLEAN)),
    "a trigger has no parameters": answering(TableProcess(action=COMPACTION, parameters=None)),  # type: ignore[arg-type]
    "a trigger has an odd instant": answering(TableProcess(action=COMPACTION, instant=7)),  # type: ignore[arg-type]
    "a trigger skips without a reason": answering(Skip(reason=None)),  # type: ignore[arg-type]
    "a trigger looks again in words": answering(Skip(reason="no", look_again="soon")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("fault", sorted(WRONG_TRIGGERS))
def test_a_trigger_that_is_wrong_is_the_trouble_of_its_own_table(
    world: World, fault: str, sentences: Sentences
) -> None:
    bad, good = two_planned(world)
    break_for(world, bad, "trigger", WRONG_TRIGGERS[fault])
    world.coordinator.run_once()
    [schedule] = world.store.schedules.of_table(bad.id)
    sentences.check(fault, schedule.last_reason, method="pretend.trigger")
    assert world.the_operation(good).instant == T1
    assert breaker_of(world).errors == 1


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (raising, "an admission raises"),
        (answering(True), "an admission returns another type"),
        (answering(TableProcess(action=COMPACTION, job="x", engine="mars")), "an admission names no engine"),
        (answering(Failure(reason="x", message="y", remedy="pray")), "an admission has no such remedy"),  # type: ignore[arg-type]
    ],
)
def test_an_admission_that_is_wrong_delays_its_own_operation(
    world: World, broken: Any, fault: str, sentences: Sentences
) -> None:
    bad, good = two_planned(world)
    break_for(world, bad, "admit", broken)
    world.turn()
    waits = world.the_operation(bad)
    assert (waits.status, waits.lease) == (Status.PENDING, None)
    sentences.check(fault, waits.reason)
    assert waits.not_before > world.clock.now()
    assert world.the_operation(good).status is Status.SUBMITTED


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (raising, "a verdict raises"),
        (answering("done"), "a verdict is of another type"),
        (answering(Verdict(finding=Finding.DONE, reason="x", numbers=7)), "a verdict has no numbers"),  # type: ignore[arg-type]
    ],
)
def test_a_verdict_that_is_none_leaves_it_unknown_never_failed(
    world: World, broken: Any, fault: str, sentences: Sentences
) -> None:
    bad, good = two_planned(world)
    world.turn()
    break_for(world, bad, "verify", broken)
    for table in (bad, good):
        world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.turn()
    unknown = world.the_operation(bad)
    assert unknown.status is Status.UNKNOWN
    sentences.check(fault, unknown.reason, method="pretend.verify")
    assert world.the_operation(good).status is Status.SUCCEEDED


@pytest.mark.parametrize("broken", [raising, answering(7)])
def test_a_failure_that_cannot_be_classified_is_tried_again_with_what_the_engine_said(
    world: World, broken: Any
) -> None:
    bad, _ = two_planned(world)
    world.turn()
    break_for(world, bad, "classify", broken)
    world.engine.says(EngineState.FAILED, error_class="Boom", message="disk full")
    world.turn()
    again = world.the_operation(bad)
    assert (again.status, again.failure and again.failure.reason) == (Status.PENDING, "Boom")
    assert "disk full" in again.reason
    assert "pretend.classify" in again.reason


@pytest.mark.parametrize("answer", [None, 7])
def test_a_probe_without_a_token_is_reported(world: World, answer: Any, sentences: Sentences) -> None:
    table = world.add_table()
    vars(world.tables)["probe"] = answering(answer)
    world.coordinator.run_once()
    [schedule] = world.store.schedules.of_table(table.id)
    found = {"location": table.location, "method": "hudi.probe", "kind": type(answer).__name__}
    sentences.check("a probe returns no token", schedule.last_reason, **found)


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        ("status", raising), ("status", answering([])), ("status", answering({})), ("heartbeat_token", raising),
        ("heartbeat_token", answering(7)), ("renew", raising),
    ],
)  # fmt: skip
def test_an_engine_that_cannot_say_loses_nothing(world: World, method: str, broken: Any) -> None:
    table, _ = two_planned(world)
    world.turn()
    vars(world.engine)[method] = broken
    world.monitor.engines["spark"]._renewed = 0.0
    world.monitor.run_once()
    operation = world.the_operation(table)
    assert operation.status in (Status.UNKNOWN, Status.SUBMITTED)
    assert operation.lease is not None
    del vars(world.engine)[method]
    world.engine.says(EngineState.RUNNING)
    world.monitor.run_once()
    assert world.the_operation(table).status is Status.RUNNING


def test_an_engine_that_does_not_take_work_gets_it_again_and_not_in_a_hurry(world: World) -> None:
    table, _ = two_planned(world)
    tries: list[object] = []

    def refuses(*args: object) -> None:
        tries.append(args)
        raise ValueError("no room")

    vars(world.engine)["submit"] = refuses
    world.turn()
    for _ in range(3):
        world.monitor.run_once()
    assert world.the_operation(table).status is Status.SUBMITTED
    assert len(tries) == 4  # for two operations: once by the dispatcher, once by the monitor
    del vars(world.engine)["submit"]
    world.monitor.engines["spark"]._not_before.clear()
    world.monitor.run_once()
    assert len(world.engine.works) == 2


@pytest.mark.parametrize("method", ["forget", "cancel"])
def test_an_engine_that_fails_to_tidy_up_hinders_no_end(world: World, method: str) -> None:
    table, _ = two_planned(world)
    world.turn()
    vars(world.engine)[method] = raising
    world.operations.end(world.the_operation(table).id, by="ann")
    world.monitor.run_once()
    world.engine.says(EngineState.CANCELED)
    world.monitor.run_once()
    assert world.the_operation(table).status is Status.CANCELED


def test_a_factory_without_end_does_not_fill_the_database(world: World, sentences: Sentences) -> None:
    """It always has another plan for the same table."""
    table = world.add_table()
    count = iter(range(10_000))
    world.factory.says[COMPACTION] = lambda _: TableProcess(action=COMPACTION, instant=f"{next(count):05}")  # type: ignore[arg-type]
    for _ in range(150):
        world.coordinator.run_once()
    assert len(world.store.operations.of_table(table.id, recent=0)) == 100
    [schedule] = world.store.schedules.of_table(table.id)
    sentences.check("too many operations wait", schedule.last_reason, operations=100)


def test_a_snapshot_is_read_once_for_all_actions_of_an_evaluation(world: World) -> None:
    world.add_table(action_types=frozenset({COMPACTION, CLEAN}))
    world.coordinator.run_once()
    assert world.factory.triggered == 2
    assert world.tables.probes == 2  # a probe and one inspection


def breaker_of(world: World) -> Any:
    proxy: Any = world.plugins.factories[HUDI, COMPACTION]
    return proxy.breaker
