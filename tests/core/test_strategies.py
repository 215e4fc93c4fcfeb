# SPDX-License-Identifier: Apache-2.0
"""Strategies are honoured to the letter: by the clock, on change, so many at once, over all instances."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakehand.core.loops.dispatcher import InFlight
from lakehand.core.plugins.pools import WaitGroup
from lakehand.domain.notifications import Notification
from lakehand.domain.operations import Operation, Status
from lakehand.domain.processes import Skip, TableProcess
from lakehand.domain.rules import Limits
from lakehand.domain.schedules import spread
from lakehand.domain.tables import Table
from lakehand.spi import EngineState, ProcessTriggerStrategy, TableRuntime, at_fixed_rate
from tests.core.world import CLEAN, NOON, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
BOTH = frozenset({COMPACTION, CLEAN})
HOURLY = at_fixed_rate(HOUR)


def a_clean(table: TableRuntime) -> TableProcess:
    return TableProcess(action=CLEAN, job="pretend.clean", reason="it is time")


def bit(table: Table, interval: timedelta = HOUR) -> timedelta:
    """The steady delay of this table's cleans."""
    return spread(f"{table.id}:clean", interval)


def cleans(world: World) -> list[timedelta]:
    """When the factory was asked about a clean, since noon."""
    return [at - NOON for at in world.factory.times_asked(CLEAN)]


def pass_by_minutes(world: World, count: int) -> None:
    """Minute by minute, each with a turn of the coordinator."""
    for _ in range(count):
        world.clock.pass_by(minutes=1)
        world.look()


def soon_after(asked: timedelta, due: timedelta) -> bool:
    return due <= asked < due + MINUTE


@pytest.fixture
def hourly(world: World) -> Table:
    """A table that is cleaned by the clock, every hour."""
    world.factory.strategies[CLEAN] = HOURLY
    world.factory.says[CLEAN] = lambda _: Skip(reason="nothing to clean")
    return world.add_table(action_types=frozenset({CLEAN}))


def test_the_first_look_comes_at_once_also_for_a_strategy_of_the_clock_alone(world: World, hourly: Table) -> None:
    world.look()
    assert cleans(world) == [timedelta()]


def test_an_interval_is_asked_about_again_and_again_though_nothing_ever_starts(world: World, hourly: Table) -> None:
    world.look()
    pass_by_minutes(world, 200)
    first, second, third = cleans(world)[:3]
    assert first == timedelta()
    assert soon_after(second, HOUR + bit(hourly))
    assert soon_after(third - second, HOUR + bit(hourly))
    assert len(cleans(world)) <= 4


def test_the_interval_counts_from_the_last_start_not_from_its_end(world: World, hourly: Table) -> None:
    world.factory.says[CLEAN] = a_clean
    world.look()
    pass_by_minutes(world, 50)
    end_whatever_runs(world, hourly)
    pass_by_minutes(world, 20)
    assert len(cleans(world)) == 2
    assert soon_after(cleans(world)[1], HOUR + bit(hourly))


def test_a_run_that_is_longer_than_its_interval_is_waited_for_without_haste(
    world: World, hourly: Table, sentences: Sentences
) -> None:
    world.factory.says[CLEAN] = a_clean
    world.look()
    pass_by_minutes(world, 150)
    assert len(world.store.operations.of_table(hourly.id, recent=9)) == 1
    assert [soon_after(at, n * HOUR + bit(hourly)) for n, at in enumerate(cleans(world)[1:], start=1)] == [True] * 2
    [running] = world.store.operations.of_table(hourly.id, recent=9)
    sentences.check("the last run is under way", reason_of(world, hourly), operation=running.id)


def test_neither_a_commit_nor_a_word_of_the_writer_hurries_a_strategy_of_the_clock(world: World, hourly: Table) -> None:
    world.look()
    world.tables.plan(hourly.location, "1")
    world.intake.record([Notification(source="callback", location=hourly.location)])
    pass_by_minutes(world, 30)
    assert cleans(world) == [timedelta()]


def test_a_person_hurries_a_strategy_of_the_clock(world: World, hourly: Table) -> None:
    world.look()
    world.clock.pass_by(minutes=5)
    world.table_service.evaluate_now(hourly.id)
    world.look()
    assert cleans(world) == [timedelta(), 5 * MINUTE]


def test_a_skip_is_asked_about_again_when_it_said_so_and_not_before(world: World) -> None:
    world.factory.says[CLEAN] = lambda _: Skip(reason="cooling down", look_again=timedelta(minutes=45))
    world.add_table(action_types=frozenset({CLEAN}))
    world.look()
    pass_by_minutes(world, 60)
    assert cleans(world) == [timedelta(), 45 * MINUTE]


def test_a_skip_that_wants_to_be_asked_at_once_does_not_keep_us_busy(world: World) -> None:
    world.factory.says[CLEAN] = lambda _: Skip(reason="now!", look_again=timedelta(seconds=-5))
    world.add_table(action_types=frozenset({CLEAN}))
    for _ in range(5):
        world.look()
    assert len(cleans(world)) == 1


def test_tables_of_one_interval_are_not_asked_together_for_ever(world: World) -> None:
    world.factory.strategies[CLEAN] = HOURLY
    world.factory.says[CLEAN] = lambda _: Skip(reason="nothing")
    for n in range(20):
        world.add_table(f"t{n}", action_types=frozenset({CLEAN}))
    world.look()
    pass_by_minutes(world, 67)
    later = {at for at in cleans(world) if at}
    assert len(later) >= 4  # the bits of 20 tables, within six minutes
    assert min(later) >= HOUR
    assert max(later) <= HOUR + 0.1 * HOUR + MINUTE


def test_a_change_is_asked_about_and_an_unchanged_table_is_not(world: World) -> None:
    table = world.add_table(action_types=frozenset({CLEAN}))
    world.look()
    pass_by_minutes(world, 25)
    assert len(cleans(world)) == 1
    world.tables.plan(table.location, "1")
    pass_by_minutes(world, 10)
    assert len(cleans(world)) == 2


def test_a_change_that_one_action_finds_is_news_for_the_others_at_once(world: World) -> None:
    """Their times are apart: the change must not be taken as known because the first look has seen it."""
    world.factory.says[CLEAN] = lambda _: Skip(reason="no", look_again=timedelta(seconds=30))
    table = world.add_table(action_types=BOTH)
    world.look()
    world.tables.plan(table.location, "1")
    world.clock.pass_by(seconds=31)
    world.look()  # only the clean is due here
    world.look()
    assert world.the_operation(table).process.action == COMPACTION


def test_a_change_is_not_forgotten_when_we_die_between_the_evaluation_and_its_end(
    world: World, monkeypatch: Any
) -> None:
    table = world.add_table(action_types=BOTH)
    world.look()
    world.tables.plan(table.location, "1")
    world.clock.pass_by(minutes=11)
    monkeypatch.setitem(world.factory.says, COMPACTION, lambda _: Skip(reason="this answer is lost"))
    with monkeypatch.context() as broken:
        broken.setattr(type(world.coordinator), "store_results", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.look()
    assert world.factory.triggered > 2, "it was asked, and its answer was lost"
    del world.factory.says[COMPACTION]
    world.restart()
    world.clock.pass_by(minutes=11)
    world.look()
    assert world.the_operation(table).process.action == COMPACTION


def test_an_interval_and_changes_are_both_reasons_to_ask(world: World) -> None:
    world.factory.strategies[CLEAN] = ProcessTriggerStrategy(interval=HOUR, on_new_snapshot=True)
    world.factory.says[CLEAN] = lambda _: Skip(reason="nothing")
    table = world.add_table(action_types=frozenset({CLEAN}))
    world.look()
    world.tables.plan(table.location, "1")
    pass_by_minutes(world, 15)
    assert len(cleans(world)) == 2
    pass_by_minutes(world, 70)
    assert len(cleans(world)) == 3


def test_a_strategy_that_fails_later_is_the_trouble_of_its_own_action(world: World, sentences: Sentences) -> None:
    world.factory.strategies[CLEAN] = "every now and then"  # type: ignore[assignment]
    table = world.add_table(action_types=BOTH)
    world.tables.plan(table.location, "1")
    world.look()
    assert world.the_operation(table).process.action == COMPACTION
    reasons = {s.action: s.last_reason for s in world.store.schedules.of_table(table.id)}
    found = {"method": "pretend.trigger_strategy", "kind": "str"}
    sentences.check("a strategy of another type", reasons[CLEAN], **found)


def test_parallelism_limits_what_runs_over_two_instances(store: Any) -> None:
    one = World(store, name="one", limits=Limits(parallelism={("hudi", "compaction"): 2}))
    two = World(store, name="two", clock=one.clock, tables=one.tables, limits=one.limits)
    tables = [one.add_table(f"t{n}") for n in range(6)]
    for table in tables:
        one.tables.plan(table.location, "1")
    one.coordinator.run_once()
    for _ in range(3):
        one.dispatcher.run_once()
        two.dispatcher.run_once()
    assert len(live(store)) == 2
    one.tables.complete(tables[0].location, "1")
    for world in (one, two):
        world.engine.says(EngineState.SUCCEEDED)
        world.monitor.run_once()
    one.clock.pass_by(seconds=1)
    one.dispatcher.run_once()
    two.dispatcher.run_once()
    assert len(live(store)) == 2


def test_two_instances_that_choose_at_the_same_moment_do_not_break_the_limit(store: Any) -> None:
    """Both have seen that nothing runs; the database lets one of them in."""
    one = World(store, name="one", limits=Limits(parallelism={("hudi", "compaction"): 1}))
    two = World(store, name="two", clock=one.clock, tables=one.tables, limits=one.limits)
    for n in range(2):
        one.tables.plan(one.add_table(f"t{n}").location, "1")
    one.coordinator.run_once()
    queue = one.dispatcher.queue()
    parts = [replace(queue, candidates=[candidate]) for candidate in queue.candidates]
    [mine], [its] = one.dispatcher.choose(parts[0]).go, two.dispatcher.choose(parts[1]).go
    assert mine.id != its.id
    moved = [
        w.dispatcher.dispatch(InFlight(candidate=c, group=WaitGroup()))
        for w, c in zip((one, two), queue.candidates, strict=True)
    ]
    assert moved == [True, False]


def test_an_action_without_a_limit_has_none(world: World) -> None:
    for n in range(5):
        world.tables.plan(world.add_table(f"t{n}").location, "1")
    world.turn()
    assert len(live(world.store)) == 5


def test_an_action_that_is_added_later_is_looked_at_at_once(world: World) -> None:
    world.factory.strategies[CLEAN] = HOURLY
    table = world.add_table()
    world.look()
    world.clock.pass_by(minutes=3)
    world.change(table, action_types=sorted(BOTH))
    world.look()
    assert cleans(world) == [3 * MINUTE]


def live(store: Any) -> list[Operation]:
    held = [*store.operations.held("one"), *store.operations.held("two")]
    return [o for o in held if o.status.is_live]


def reason_of(world: World, table: Table) -> str:
    [schedule] = world.store.schedules.of_table(table.id)
    return schedule.last_reason


def end_whatever_runs(world: World, table: Table) -> None:
    for operation in world.store.operations.of_table(table.id, recent=0):
        world.operations.end(operation.id, by="the test")
    assert all(o.status is Status.CANCELED for o in world.store.operations.of_table(table.id, recent=9))
