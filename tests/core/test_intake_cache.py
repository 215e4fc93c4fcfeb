# SPDX-License-Identifier: Apache-2.0
"""The intake caches the time and known tables, for a moment only."""

from datetime import timedelta

from lakehand.core.intake.notifications import IntakeCache
from tests.core.world import NOON, World

HOUR = timedelta(hours=1)


def test_a_known_table_and_the_time_are_asked_for_once(world: World) -> None:
    table = world.add_table()
    cache = IntakeCache(store=world.store, keep=HOUR)
    first, began = cache.tables(["/lake/trips"]), cache.now()

    world.clock.pass_by(hours=9)
    world.store.tables.remove(table.id, now=NOON)

    assert cache.tables(["/lake/trips"]) == first == {"/lake/trips": table}
    assert began <= cache.now() < began + HOUR


def test_an_unknown_table_is_asked_for_every_time(world: World) -> None:
    cache = IntakeCache(store=world.store, keep=HOUR)
    assert cache.tables(["/lake/trips"]) == {}
    world.add_table()
    assert cache.tables(["/lake/trips"])


def test_without_a_time_to_keep_nothing_is_remembered(world: World) -> None:
    table = world.add_table()
    cache = IntakeCache(store=world.store)
    assert (cache.tables(["/lake/trips"]), cache.now()) == ({"/lake/trips": table}, NOON)

    world.clock.pass_by(hours=9)
    world.store.tables.remove(table.id, now=NOON)

    assert (cache.tables(["/lake/trips"]), cache.now()) == ({}, NOON + 9 * HOUR)
