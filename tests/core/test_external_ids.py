# SPDX-License-Identifier: Apache-2.0
"""What an engine calls an attempt is stored while that runs, and stays after its end."""

from lakehand.domain.operations import Attempt, Status
from lakehand.domain.tables import Table
from lakehand.spi import EngineState
from tests.core.world import World

T1 = "20261115110000000"
URL = "https://history/app-1"


def submitted(world: World) -> Table:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    return table


def the_attempt(world: World, table: Table) -> Attempt:
    [attempt] = world.store.operations.attempts(world.the_operation(table).id)
    return attempt


def test_it_is_shown_while_the_attempt_runs_and_afterwards(world: World) -> None:
    table = submitted(world)
    world.engine.says(EngineState.RUNNING, external_id="app-1", external_url=URL)
    world.monitor.run_once()
    running = the_attempt(world, table)

    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)  # an engine may forget it
    world.monitor.run_once()

    assert (running.external_id, running.external_url, running.outcome) == ("app-1", URL, "")
    ended = the_attempt(world, table)
    assert (ended.external_id, ended.external_url, ended.outcome) == ("app-1", URL, "succeeded")


def test_it_is_stored_as_soon_as_the_engine_knows_it(world: World) -> None:
    table = submitted(world)
    world.engine.says(EngineState.RUNNING)
    world.monitor.run_once()
    assert the_attempt(world, table).external_id is None

    world.engine.says(EngineState.RUNNING, external_id="app-1")
    world.monitor.run_once()

    assert the_attempt(world, table).external_id == "app-1"


def test_an_attempt_that_ends_before_anybody_saw_it_run_has_it_too(world: World) -> None:
    table = submitted(world)

    world.engine.says(EngineState.FAILED, external_id="app-1", external_url=URL)
    world.monitor.run_once()

    assert world.the_operation(table).status is Status.PENDING  # it is tried again
    assert the_attempt(world, table).external_url == URL


def test_what_an_engine_must_not_say_is_left_out(world: World) -> None:
    table = submitted(world)

    world.engine.says(EngineState.RUNNING, external_id="app-1", external_url="https://ann:hush@history/app-1")
    world.monitor.run_once()

    attempt = the_attempt(world, table)
    assert (attempt.external_id, attempt.external_url) == ("app-1", None)
    assert world.the_operation(table).status is Status.RUNNING


def test_an_unchanged_name_is_stored_once(world: World) -> None:
    table = submitted(world)
    world.engine.says(EngineState.RUNNING, external_id="app-1")
    world.monitor.run_once()
    stored = world.the_operation(table).updated_at

    world.clock.pass_by(seconds=5)
    world.monitor.run_once()

    assert world.the_operation(table).updated_at == stored
