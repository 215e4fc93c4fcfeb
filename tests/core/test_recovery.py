# SPDX-License-Identifier: Apache-2.0
"""After a restart each stored, unfinished operation is recovered by its factory; one that cannot be fails alone."""

from dataclasses import replace
from typing import Any

import pytest

from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import TableProcess
from lakehand.domain.tables import Table
from lakehand.spi import EngineState, RecoverProcessFailed, StateKey
from tests.core.world import CLEAN, World
from tests.kit.sentences import Sentences

T1 = "20261115110000000"
COUNT = StateKey(name="count", default=0, encode=str, decode=int)


def two_planned(world: World) -> tuple[Table, Table]:
    bad, good = world.add_table("bad"), world.add_table("good")
    for table in (bad, good):
        world.tables.plan(table.location, T1)
    return bad, good


def refusing(world: World, table: Table, error: Exception) -> Any:
    """A factory's ``recover`` that fails for one table, and the operations that it was asked about."""
    asked: list[int] = []

    def recover(_runtime: Any, stored: Operation) -> TableProcess:
        asked.append(stored.table)
        if stored.table == table.id:
            raise error
        return stored.process

    vars(world.factory)["recover"] = recover
    return asked


@pytest.mark.parametrize("error", [RecoverProcessFailed("its plan is of an older version"), KeyError("mode")])
def test_a_pending_one_that_cannot_be_recovered_fails_alone_with_its_reason(world: World, error: Exception) -> None:
    bad, good = two_planned(world)
    world.coordinator.run_once()
    refusing(world, bad, error)
    world.restart()
    world.turn()
    failed = world.the_operation(bad)
    assert (failed.status, failed.failure and failed.failure.reason) == (Status.FAILED, "recover-failed")
    assert str(error) in failed.reason
    assert world.the_operation(good).status is Status.SUBMITTED
    kinds = [e.event.kind for e in world.store.events.list(operation=failed.id).items]
    assert kinds[0] == "operation.failed"


def test_each_is_recovered_once_per_process_and_new_ones_not_at_all(world: World, sentences: Sentences) -> None:
    bad, good = two_planned(world)
    world.coordinator.run_once()
    asked = refusing(world, bad, OSError("the storage is away"))
    world.restart()
    for _ in range(3):
        world.turn()
        world.clock.pass_by(minutes=1)
    new = world.add_table("new")
    world.tables.plan(new.location, T1)
    world.turn()
    assert asked.count(good.id) == 1
    assert asked.count(bad.id) >= 2
    assert new.id not in asked
    waits = world.the_operation(bad)
    assert waits.status is Status.PENDING
    sentences.check("not admitted", waits.reason, why="the storage is away")


def test_the_process_that_recover_gives_is_the_one_that_runs(world: World) -> None:
    _, good = two_planned(world)
    world.coordinator.run_once()
    vars(world.factory)["recover"] = lambda _, stored: replace(stored.process, parameters={"made": "anew"})
    world.restart()
    world.turn()
    [work] = [w for w in world.engine.works.values() if w.location == good.location]
    assert work.parameters == {"made": "anew", "boundary": world.draw_boundary(good.location, ()).as_parameter()}


def test_a_live_one_that_cannot_be_recovered_is_what_its_table_says(world: World, sentences: Sentences) -> None:
    bad, good = two_planned(world)
    world.turn()
    refusing(world, bad, RecoverProcessFailed("no more"))
    world.restart()
    world.rescuer.adopt()
    world.turn()
    assert world.the_operation(bad).status is Status.SUBMITTED
    sentences.check("cannot be recovered while it runs", world.the_operation(bad).reason, why="no more")
    for table in (bad, good):
        world.tables.complete(table.location, T1)
    world.engine.says(EngineState.LOST)
    world.turn()
    assert {world.the_operation(t).status for t in (bad, good)} == {Status.SUCCEEDED}


def test_a_live_one_that_had_no_effect_and_cannot_be_recovered_has_failed_and_is_not_tried_again(world: World) -> None:
    bad, good = two_planned(world)
    world.turn()
    refusing(world, bad, RecoverProcessFailed("no more"))
    world.restart()
    world.rescuer.adopt()
    world.turn()
    world.engine.says(EngineState.FAILED)
    world.turn()
    failed = world.the_operation(bad)
    assert (failed.status, failed.failure and failed.failure.reason) == (Status.FAILED, "recover-failed")
    assert "no more" in failed.reason
    assert world.the_operation(good).status is Status.PENDING


def test_a_live_one_that_cannot_be_recovered_and_whose_table_is_silent_is_unknown(world: World) -> None:
    bad, _ = two_planned(world)
    world.turn()
    refusing(world, bad, RecoverProcessFailed("no more"))
    world.restart()
    world.rescuer.adopt()
    world.turn()
    world.tables.broken.add(bad.location)
    world.engine.says(EngineState.FAILED)
    world.turn()
    assert world.the_operation(bad).status is Status.UNKNOWN


def test_one_that_no_engine_had_is_not_given_again_when_it_cannot_be_recovered(world: World) -> None:
    bad, _ = two_planned(world)
    world.engine.is_deaf = True
    world.turn()
    world.engine.is_deaf = False
    refusing(world, bad, RecoverProcessFailed("no more"))
    world.restart()
    world.rescuer.adopt()
    for _ in range(3):
        world.turn()
    assert world.the_operation(bad).status is Status.FAILED
    assert [w.location for w in world.engine.works.values()] == ["/lake/good"]


def test_what_another_instance_left_is_recovered_by_whoever_takes_it_over(store: Any) -> None:
    one = World(store, name="one")
    two = World(store, name="two", clock=one.clock, tables=one.tables)
    one.clock.pass_by(minutes=1)
    bad, good = two_planned(one)
    one.turn()
    asked = refusing(two, bad, RecoverProcessFailed("no more"))
    one.clock.pass_by(seconds=80)
    two.rescuer.run_once()
    for _ in range(2):
        two.monitor.run_once()
    assert sorted(asked) == [bad.id, good.id]
    assert two.the_operation(bad).status is Status.FAILED
    assert two.the_operation(good).status is Status.PENDING


def test_a_retry_by_a_person_asks_recover_again(world: World) -> None:
    bad, _ = two_planned(world)
    world.coordinator.run_once()
    refusing(world, bad, RecoverProcessFailed("no more"))
    world.restart()
    world.turn()
    failed = world.the_operation(bad)
    assert failed.status is Status.FAILED
    refusing(world, world.add_table("nobody"), RecoverProcessFailed("no more"))
    world.operations.reopen(failed.id, by="ann")
    world.turn()
    assert world.the_operation(bad).status is Status.SUBMITTED


def switched_off(world: World) -> World:
    """The same instance after a restart without its factory."""
    world.plugins = replace(world.plugins, factories={})
    world.restart()
    world.rescuer.adopt()
    return world


def test_operations_of_a_plugin_that_is_off_wait_and_say_for_what(world: World, sentences: Sentences) -> None:
    pending, live = two_planned(world)
    world.engine.slots = 1
    world.monitor.run_once()
    world.turn()
    on = world.plugins
    first, second = (pending, live) if world.the_operation(pending).status is Status.PENDING else (live, pending)
    switched_off(world)
    world.engine.says(EngineState.FAILED)
    world.engine.slots = 8
    for _ in range(2):
        world.turn()
    assert world.the_operation(first).status is Status.PENDING
    plugin = {"action": "compaction", "format": "hudi"}
    sentences.check("not admitted without a plugin", world.the_operation(first).reason, **plugin)
    assert world.the_operation(second).status is Status.UNKNOWN
    sentences.check("unknown without a plugin", world.the_operation(second).reason, **plugin)
    world.plugins = on
    world.restart()
    world.rescuer.adopt()
    world.tables.complete(second.location, T1)
    world.clock.pass_by(minutes=1)
    for _ in range(3):
        world.turn()
    assert world.the_operation(second).status is Status.SUCCEEDED
    assert world.the_operation(first).status is Status.SUBMITTED


def test_schedules_and_state_survive_that_their_plugin_is_off_for_a_while(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    counted: list[int] = []
    vars(world.factory)["required_states"] = lambda: {COUNT}
    world.factory.says[CLEAN] = lambda runtime: counted.append(runtime.update_state(COUNT, lambda n: n + 1))
    world.add_table("cleaned", action_types=frozenset({CLEAN}))
    world.look()
    on = world.plugins
    switched_off(world)
    world.tables.plan(table.location, T1)
    for _ in range(3):
        world.clock.pass_by(minutes=11)
        world.look()
    [schedule] = world.store.schedules.of_table(table.id)
    sentences.check("no plugin", schedule.last_reason, action="compaction", format="hudi")
    world.plugins = on
    world.restart()
    world.clock.pass_by(minutes=11)
    world.look()
    assert world.the_operation(table).instant == T1
    assert counted[:2] == [1, 2]


def test_operations_of_an_engine_that_is_off_wait_and_say_for_what(world: World, sentences: Sentences) -> None:
    pending, live = two_planned(world)
    world.engine.slots = 1
    world.monitor.run_once()
    world.turn()
    world.plugins = replace(world.plugins, engines={})
    world.restart()
    world.rescuer.adopt()
    world.monitor.run_once()
    states = {world.the_operation(t).status for t in (pending, live)}
    assert states == {Status.PENDING, Status.UNKNOWN}
    [unknown] = [o for o in map(world.the_operation, (pending, live)) if o.status is Status.UNKNOWN]
    sentences.check("unknown without an engine", unknown.reason, engine="spark")
