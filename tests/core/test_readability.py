# SPDX-License-Identifier: Apache-2.0
"""When a table counts as unreadable by its evaluations, and when no more; no probe can tell."""

from typing import Any

import pytest

from lakehand.domain.errors import Busy, Invalid
from lakehand.domain.tables import Table
from lakehand.spi import Skip, TableRuntime
from tests.core.world import CLEAN, World
from tests.domain.words import COMPACTION

BOTH = frozenset({COMPACTION, CLEAN})


def raising(error: Exception) -> Any:
    def trigger(runtime: TableRuntime) -> Any:
        raise error

    return trigger


def answer(runtime: TableRuntime) -> Skip:
    return Skip(reason="nothing to do")


def problem_of(world: World, table: Table) -> str:
    return world.store.tables.get(table.id).problem


def evaluate(world: World, table: Table, **says: Any) -> str:
    """Also by the prober, to which the table looks sound. ``says``: what the factory does for each action."""
    world.factory.says = {COMPACTION: says["compaction"], CLEAN: says["clean"]}
    world.clock.pass_by(minutes=11)
    world.store.schedules.wake([table.id], now=world.clock.now(), decide=True)
    world.look()
    world.clock.pass_by(minutes=11)
    world.prober.run_once()
    return problem_of(world, table)


def test_a_table_of_which_every_action_fails_is_unreadable_until_one_is_answered(world: World) -> None:
    table = world.add_table(action_types=BOTH)
    bad = raising(Invalid("no sense"))
    assert "no sense" in evaluate(world, table, compaction=bad, clean=bad)
    since = world.store.tables.get(table.id).problem_since
    assert evaluate(world, table, compaction=bad, clean=bad)
    assert world.store.tables.get(table.id).problem_since == since
    assert evaluate(world, table, compaction=answer, clean=answer) == ""


def test_one_action_that_makes_no_sense_leaves_the_table_readable(world: World) -> None:
    table = world.add_table(action_types=BOTH)
    assert evaluate(world, table, compaction=raising(Invalid("no sense")), clean=answer) == ""


def test_a_file_that_one_action_cannot_read_makes_the_table_unreadable_until_that_action_is_answered(
    world: World,
) -> None:
    table = world.add_table(action_types=BOTH)
    torn = raising(OSError("m0.avro is torn"))
    assert "m0.avro is torn" in evaluate(world, table, compaction=torn, clean=answer)
    world.factory.says[CLEAN] = answer
    world.store.schedules.wake([table.id], now=world.clock.now(), action=CLEAN, decide=True)
    world.coordinator.run_once()
    assert "m0.avro is torn" in problem_of(world, table)
    assert evaluate(world, table, compaction=answer, clean=answer) == ""


@pytest.mark.parametrize("error", [KeyError("x"), ZeroDivisionError()])
def test_a_plugin_that_fails_is_no_unreadable_table(world: World, error: Exception) -> None:
    table = world.add_table(action_types=BOTH)
    assert evaluate(world, table, compaction=raising(error), clean=raising(error)) == ""


def test_a_table_that_others_are_in_the_way_of_is_evaluated_a_little_later(world: World) -> None:
    table = world.add_table(action_types=BOTH)
    busy = raising(Busy("another one is read"))
    assert evaluate(world, table, compaction=busy, clean=busy) == ""
    [schedule, _] = world.store.schedules.of_table(table.id)
    assert schedule.last_reason == "another one is read"
    assert schedule.last_decision is None
    world.factory.says = {COMPACTION: answer, CLEAN: answer}
    world.clock.pass_by(seconds=31)
    world.coordinator.run_once()
    assert {one.last_reason for one in world.store.schedules.of_table(table.id)} == {"nothing to do"}
