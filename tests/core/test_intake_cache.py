# SPDX-License-Identifier: Apache-2.0
"""What the intake remembers saves questions, for a moment only."""

from datetime import timedelta

from lakehand.core.intake_cache import IntakeCache
from tests.core.world import NOON, World

HOUR = timedelta(hours=1)


def test_a_known_table_and_the_time_are_asked_for_once(world: World) -> None:
    table = world.add_table()
    memory = IntakeCache(store=world.store, keep=HOUR)
    first, began = memory.tables(["/lake/trips"]), memory.now()

    world.clock.pass_by(hours=9)
    world.store.tables.remove(table.id, now=NOON)

    assert memory.tables(["/lake/trips"]) == first == {"/lake/trips": table}
    assert began <= memory.now() < began + HOUR


def test_an_unknown_table_is_asked_for_every_time(world: World) -> None:
    memory = IntakeCache(store=world.store, keep=HOUR)
    assert memory.tables(["/lake/trips"]) == {}
    world.add_table()
    assert memory.tables(["/lake/trips"])


def test_without_a_time_to_keep_nothing_is_remembered(world: World) -> None:
    table = world.add_table()
    memory = IntakeCache(store=world.store)
    assert (memory.tables(["/lake/trips"]), memory.now()) == ({"/lake/trips": table}, NOON)

    world.clock.pass_by(hours=9)
    world.store.tables.remove(table.id, now=NOON)

    assert (memory.tables(["/lake/trips"]), memory.now()) == ({}, NOON + 9 * HOUR)
