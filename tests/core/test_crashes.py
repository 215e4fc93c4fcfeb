# SPDX-License-Identifier: Apache-2.0
"""The service dies at each point on the way; afterwards there is one run, and the truth is told."""

from dataclasses import replace
from typing import Any

import pytest

from lakehand.domain.errors import LeaseLost
from lakehand.domain.operations import Handle, Lease, LeaseToken, Status
from lakehand.spi import EngineState
from tests.core.world import TIME_TO_LIVE, World
from tests.store.given import queue_of

T1 = "20261115110000000"


def two_worlds(store: Any) -> tuple[World, World]:
    one = World(store, name="one")
    return one, World(store, name="two", clock=one.clock, tables=one.tables)


def test_died_after_the_claim_before_the_handle_was_stored(store: Any) -> None:
    one, two = two_worlds(store)
    table = one.add_table()
    one.tables.plan(table.location, T1)
    one.coordinator.run_once()
    [candidate] = queue_of(one.store, now=one.clock.now(), limit=9).candidates
    assert one.store.operations.claim(
        candidate.operation, holder=one.holder, now=one.clock.now(), time_to_live=TIME_TO_LIVE
    )
    two.turn()
    assert not two.engine.works
    two.clock.pass_by(seconds=71)
    two.rescuer.run_once()
    two.turn()
    assert len(two.engine.works) == 1


def test_died_during_an_evaluation_which_is_repeated_at_once(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    now = world.clock.now()
    claimed = world.store.schedules.claim_due(holder=world.holder, now=now, time_to_live=TIME_TO_LIVE, limit=9)
    assert claimed.schedules

    world.restart()
    world.rescuer.adopt()
    world.coordinator.run_once()

    assert world.the_operation(table).instant == T1


def test_died_after_the_handle_was_stored_before_the_submit(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    world.engine.is_deaf = True
    world.dispatcher.run_once()
    stored = world.the_operation(table)
    world.engine.is_deaf = False

    world.restart()
    assert world.rescuer.adopt() == 1
    world.turn()  # it is recovered
    world.turn()
    assert list(world.engine.works) == [stored.handle]
    assert world.engine.untils[world.the_operation(table).handle or Handle("")].heartbeat_token is None
    assert world.the_operation(table).run_times == 1


def test_died_while_the_job_ran_and_came_back_in_time(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.engine.says(EngineState.RUNNING)
    world.turn()
    world.restart()
    world.rescuer.adopt()
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.turn()
    world.turn()
    done = world.the_operation(table)
    assert (done.status, done.run_times) == (Status.SUCCEEDED, 1)


def test_a_former_self_can_write_nothing_after_the_restart(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    before = world.the_operation(table)
    world.restart()
    world.rescuer.adopt()
    with pytest.raises(LeaseLost):
        world.store.operations.save(before, now=world.clock.now())


def test_the_instance_never_comes_back_and_its_job_had_no_effect(store: Any) -> None:
    one, two = two_worlds(store)
    table = one.add_table()
    one.tables.plan(table.location, T1)
    one.turn()
    two.clock.pass_by(seconds=65)
    two.rescuer.run_once()
    two.turn()
    held = two.the_operation(table)
    assert held.lease is not None
    assert (held.status, held.lease.holder) == (Status.SUBMITTED, "one")  # the margin has not passed
    two.clock.pass_by(seconds=10)
    two.rescuer.run_once()
    two.monitor.run_once()
    two.monitor.run_once()
    returned = two.the_operation(table)
    assert (returned.status, returned.failure and returned.failure.reason) == (Status.PENDING, "engine-lost")
    two.clock.pass_by(minutes=5)
    two.turn()
    assert len(two.engine.works) == 1


def test_the_instance_never_comes_back_but_its_job_had_committed(store: Any) -> None:
    one, two = two_worlds(store)
    table = one.add_table()
    one.tables.plan(table.location, T1)
    one.turn()
    one.tables.complete(table.location, T1)
    two.clock.pass_by(seconds=71)
    two.rescuer.run_once()
    two.monitor.run_once()
    two.monitor.run_once()
    done = two.the_operation(table)
    assert (done.status, done.run_times, two.engine.works) == (Status.SUCCEEDED, 1, {})


def test_a_holder_that_slept_too_long_writes_nothing_and_stops_its_job(store: Any) -> None:
    one, two = two_worlds(store)
    table = one.add_table()
    one.tables.plan(table.location, T1)
    one.turn()
    handle = one.the_operation(table).handle
    two.clock.pass_by(seconds=71)
    two.rescuer.run_once()
    with pytest.raises(LeaseLost):
        one.store.operations.save(replace_reason(one, table), now=one.clock.now())
    one.monitor.engines["spark"].give_up_lease(one.the_operation(table))
    assert one.engine.canceled == [handle]


def replace_reason(world: World, table: Any) -> Any:
    operation = world.the_operation(table)
    assert operation.lease is not None
    stale = Lease(holder=world.holder, token=LeaseToken("stale"), until=operation.lease.until)
    return replace(operation, lease=stale)


def test_the_heartbeat_token_is_read_before_the_lease_is_taken(world: World) -> None:
    """Otherwise a slow claim would let the job outlive the lease."""
    seen: list[str] = []
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    heartbeat_token, claim = world.engine.heartbeat_token, world.store.operations.claim

    def reading() -> str | None:
        seen.append("token")
        return heartbeat_token()

    def claiming(*args: Any, **kwargs: Any) -> Any:
        seen.append("claim")
        return claim(*args, **kwargs)

    world.engine.heartbeat_token = reading  # type: ignore[method-assign]
    world.store.operations.claim = claiming  # type: ignore[method-assign]
    world.dispatcher.run_once()
    assert seen == ["token", "claim"]
