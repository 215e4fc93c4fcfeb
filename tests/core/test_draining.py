# SPDX-License-Identifier: Apache-2.0
"""An instance that drains claims nothing, and hands over only what its engine says is over."""

from datetime import timedelta
from typing import Any

import pytest

from lakehand.api.service import DrainRequest
from lakehand.domain.access import Caller, Role
from lakehand.domain.operations import InstanceState, Operation, Status
from lakehand.domain.tables import Table
from lakehand.spi import EngineState
from tests.core.world import World
from tests.kit.sentences import Sentences

ANN = Caller(name="ann", role=Role.OPERATOR)
T1 = "20261115110000000"


@pytest.fixture
def one(store: Any) -> World:
    return World(store, name="one")


@pytest.fixture
def two(store: Any, one: World) -> World:
    return World(store, name="two", clock=one.clock, tables=one.tables)


def planned(world: World) -> Table:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    return table


def running(world: World) -> Table:
    """A table whose operation runs on the engine of this instance."""
    table = planned(world)
    world.turn()
    world.engine.says(EngineState.RUNNING)
    world.turn()
    assert world.the_operation(table).status is Status.RUNNING
    return table


def begin(world: World, seconds: float | None = None) -> None:
    """Without a time-out, running work may finish."""
    world.drains.begin(ANN, DrainRequest(timeout=seconds))


def holder_of(operation: Operation) -> str | None:
    return operation.lease.holder if operation.lease else None


def test_schedules_probes_and_late_operations_are_left_to_others(one: World, two: World) -> None:
    table = planned(one)
    begin(two)

    two.turn()
    assert (two.tables.probes, two.factory.triggered) == (0, 0)
    one.turn()
    one.clock.pass_by(minutes=5)
    two.rescuer.run_once()

    assert holder_of(one.the_operation(table)) == "one"


def test_a_pending_operation_is_claimed_by_another_instance_only(one: World, two: World) -> None:
    table = planned(one)
    one.look()
    begin(one)

    one.dispatcher.run_once()
    assert one.the_operation(table).status is Status.PENDING
    two.dispatcher.run_once()

    assert holder_of(one.the_operation(table)) == "two"


def test_an_operation_that_is_being_admitted_is_put_back_for_another_instance(
    one: World, two: World, sentences: Sentences
) -> None:
    table = planned(one)
    one.look()
    admit = one.factory.admit

    def drain_meanwhile(*given: Any) -> Any:
        begin(one)
        return admit(*given)

    one.factory.admit = drain_meanwhile  # type: ignore[method-assign,assignment]
    one.dispatcher.run_once()

    put_back = one.the_operation(table)
    assert (put_back.status, put_back.lease) == (Status.PENDING, None)
    sentences.check("the instance is draining", put_back.reason)
    assert not one.engine.works
    one.clock.pass_by(seconds=1)
    two.dispatcher.run_once()
    assert holder_of(one.the_operation(table)) == "two"


def test_work_that_waits_on_the_engine_is_handed_over_when_the_engine_has_let_go_of_it(one: World, two: World) -> None:
    table = planned(one)
    one.turn()
    begin(one)

    one.monitor.run_once()
    one.monitor.run_once()
    assert len(one.engine.canceled) == 1
    assert holder_of(one.the_operation(table)) == "one", "the engine may still start it"
    one.engine.says(EngineState.CANCELED, message="canceled before it started")
    one.monitor.run_once()

    over = one.the_operation(table)
    assert (over.status, over.lease, over.failure and over.failure.reason) == (Status.PENDING, None, "handed-over")
    one.clock.pass_by(seconds=2)
    two.turn()
    assert holder_of(one.the_operation(table)) == "two"


def test_handing_over_uses_up_no_attempt(one: World) -> None:
    table = planned(one)
    for _ in range(5):  # more than the retry policy allows
        one.turn()
        begin(one)
        one.monitor.run_once()
        one.engine.says(EngineState.CANCELED)
        one.monitor.run_once()
        one.drains.end(ANN)
        one.clock.pass_by(seconds=2)

    operation = one.the_operation(table)
    assert (operation.status, operation.run_times, operation.deferrals) == (Status.PENDING, 5, 5)


def test_running_work_finishes_here_before_the_time_out(one: World, two: World) -> None:
    table = running(one)
    begin(one, 60)

    one.turn()
    two.turn()
    assert (one.engine.canceled, holder_of(one.the_operation(table))) == ([], "one")
    assert one.drains.report().state == InstanceState.DRAINING
    one.tables.complete(table.location, T1)
    one.engine.says(EngineState.SUCCEEDED)
    one.monitor.run_once()

    assert one.the_operation(table).status is Status.SUCCEEDED
    assert one.drains.report().state == InstanceState.DRAINED


def test_work_that_runs_on_after_the_time_out_keeps_its_lease_until_it_has_stopped(one: World, two: World) -> None:
    table = running(one)
    begin(one, 0)

    for _ in range(3):
        one.turn()
        two.turn()
    assert len(one.engine.canceled) == 1
    assert holder_of(one.the_operation(table)) == "one"
    assert not two.engine.works
    one.engine.says(EngineState.CANCELED)
    one.monitor.run_once()
    one.clock.pass_by(seconds=2)
    two.dispatcher.run_once()

    assert holder_of(one.the_operation(table)) == "two"


def test_an_engine_that_cannot_say_keeps_the_operation_here(one: World) -> None:
    table = running(one)
    begin(one, 0)
    one.engine.says(EngineState.UNKNOWN)

    one.turn()

    unknown = one.the_operation(table)
    assert (unknown.status, holder_of(unknown)) == (Status.UNKNOWN, "one")
    assert one.drains.report().state == InstanceState.DRAINING


def test_stopped_work_whose_commit_is_in_the_table_has_succeeded(one: World) -> None:
    table = running(one)
    begin(one, 0)
    one.turn()
    one.tables.complete(table.location, T1)
    one.engine.says(EngineState.CANCELED)
    one.monitor.run_once()

    assert one.the_operation(table).status is Status.SUCCEEDED


def test_work_that_never_reached_its_engine_is_handed_over_after_its_grant(one: World) -> None:
    """Until then a hanging thread could still submit it, and it would run."""
    table = planned(one)
    one.engine.is_deaf = True
    one.turn()
    one.engine.is_deaf = False
    begin(one)

    one.monitor.run_once()
    assert (holder_of(one.the_operation(table)), one.engine.works) == ("one", {})
    one.clock.pass_by(seconds=61)
    one.monitor.run_once()

    over = one.the_operation(table)
    assert (over.status, over.lease, one.engine.works) == (Status.PENDING, None, {})


def test_an_undone_drain_claims_again(one: World) -> None:
    table = planned(one)
    begin(one)
    one.turn()
    assert not one.store.operations.of_table(table.id, recent=1)

    assert one.drains.end(ANN).state == InstanceState.SERVING
    one.turn()

    assert holder_of(one.the_operation(table)) == "one"


def test_a_process_that_stops_hands_back_what_no_engine_has(one: World, two: World) -> None:
    table = planned(one)
    one.look()
    [operation] = one.store.operations.of_table(table.id, recent=1)
    one.store.operations.claim(operation, holder=one.holder, time_to_live=timedelta(minutes=1))
    one.table_service.evaluate_now(table.id, by="ann")
    due, _ = one.store.schedules.claim_due(
        holder=one.holder, now=one.clock.now(), time_to_live=timedelta(minutes=2), limit=10
    )
    assert due

    one.rescuer.hand_back()
    two.coordinator.run_once()
    two.dispatcher.run_once()

    assert two.factory.triggered
    assert holder_of(one.the_operation(table)) == "two"


def test_a_process_that_stops_keeps_what_its_engine_runs(one: World) -> None:
    table = running(one)

    one.rescuer.hand_back()

    kept = one.the_operation(table)
    assert (kept.status, holder_of(kept)) == (Status.RUNNING, "one")
