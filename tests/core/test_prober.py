# SPDX-License-Identifier: Apache-2.0
"""Changes that no writer reported are found at the heartbeat, by one cheap probe for all actions of a table."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from lakehand.core.loops.prober import FEW
from lakehand.core.plugins.pools import WorkerPools
from lakehand.domain.schedules import Schedule
from lakehand.domain.tables import Table, TableReference
from lakehand.spi import Skip, at_fixed_rate
from tests.core.waiting import a_while_later, eventually
from tests.core.world import CLEAN, HUDI, NOON, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import SECONDS, TIME, Sentences

T1 = "20261115110000000"
BOTH = frozenset({COMPACTION, CLEAN})
HEARTBEAT = timedelta(minutes=10)


@pytest.fixture
def table(world: World) -> Table:
    """A table of two actions that was probed, and whose heartbeat is over."""
    made = world.add_table(action_types=BOTH)
    world.coordinator.run_once()
    world.clock.pass_by(minutes=11)
    world.tables.probes = 0
    return made


def schedules(world: World, table: Table) -> dict[str, Schedule]:
    return {str(s.action): s for s in world.store.schedules.of_table(table.id)}


def test_an_unchanged_table_costs_one_probe_and_no_schedule(world: World, table: Table) -> None:
    before = schedules(world, table)
    world.look()
    assert world.tables.probes == 1
    assert schedules(world, table) == before
    assert world.store.tables.get(table.id).probe_due == world.clock.now() + HEARTBEAT


def test_a_change_makes_due_what_follows_changes_and_nothing_else(world: World, table: Table) -> None:
    world.factory.strategies[CLEAN] = at_fixed_rate(timedelta(hours=9))
    world.tables.plan(table.location, T1)
    world.prober.run_once()
    woken = {name: s.wakes for name, s in schedules(world, table).items()}
    assert woken == {"compaction": 1, "clean": 0}
    world.coordinator.run_once()
    assert world.the_operation(table).process.action == COMPACTION


def test_a_change_wakes_its_actions_once(world: World, table: Table) -> None:
    world.tables.plan(table.location, T1)
    world.look()
    asked = world.factory.triggered
    world.clock.pass_by(minutes=11)
    world.look()
    world.clock.pass_by(minutes=11)
    world.look()
    assert world.factory.triggered == asked + 1  # after what was stored it is asked again, and skips


def test_a_change_is_not_lost_when_we_die_before_its_actions_are_woken(
    world: World, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tables.plan(table.location, T1)
    with monkeypatch.context() as broken:
        broken.setattr("lakehand.store.probes.wake_actions", lambda *_: 1 / 0)  # after the token, before the commit
        with pytest.raises(ZeroDivisionError):
            world.prober.run_once()
    world.restart()
    world.clock.pass_by(minutes=3)  # the hold of the one that died is over
    world.look()
    assert world.the_operation(table).instant == T1


def test_a_table_that_cannot_be_read_any_more_says_so_for_each_action(
    world: World, table: Table, sentences: Sentences
) -> None:
    world.tables.broken.add(table.location)
    world.look()
    said = [s.last_reason for s in schedules(world, table).values()]
    assert len(said) == 2
    for reason in said:
        found = {"location": table.location, "why": "the storage is on fire"}
        sentences.check("a table cannot be read", reason, **found)
    world.tables.broken.clear()
    world.clock.pass_by(minutes=11)
    world.look()
    assert [s.last_reason for s in schedules(world, table).values()] == ["no pending plan"] * 2


def test_one_bad_table_delays_no_other_of_its_batch(world: World) -> None:
    tables = [world.add_table(f"t{n}") for n in range(3)]
    world.coordinator.run_once()
    world.clock.pass_by(minutes=11)
    world.tables.broken.add(tables[0].location)
    for one in tables[1:]:
        world.tables.plan(one.location, T1)
    world.look()
    assert [world.the_operation(one).instant for one in tables[1:]] == [T1, T1]


def test_two_instances_probe_a_table_once(world: World, table: Table) -> None:
    other = World(world.store, name="two", clock=world.clock, tables=world.tables)
    world.prober.run_once()
    other.prober.run_once()
    assert world.tables.probes == 1


def test_a_full_batch_is_not_the_last(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehand.core.loops.prober.BATCH", 2)
    tables = [world.add_table(f"t{n}") for n in range(5)]
    world.coordinator.run_once()
    world.clock.pass_by(minutes=11)
    for one in tables:
        world.tables.plan(one.location, T1)
    assert [world.prober.run_once() for _ in range(4)] == [True, True, False, False]
    world.coordinator.run_once()
    assert [world.the_operation(one).instant for one in tables] == [T1] * 5


def test_tables_that_were_registered_together_are_not_probed_together_for_ever(world: World) -> None:
    tables = [world.add_table(f"t{n}") for n in range(20)]
    world.coordinator.run_once()
    due = {world.store.tables.get(one.id).probe_due for one in tables}
    assert len(due) > 15
    assert all(moment and NOON <= moment <= NOON + HEARTBEAT for moment in due)


def test_an_evaluation_counts_as_a_probe(world: World, table: Table) -> None:
    world.table_service.evaluate_now(table.id)
    world.coordinator.run_once()
    world.tables.probes = 0
    world.prober.run_once()
    assert world.tables.probes == 0


def test_a_new_process_with_another_strategy_is_not_bound_by_the_old_one(world: World) -> None:
    """At rest under the old strategy it would wait until it changes."""
    world.factory.says[CLEAN] = lambda _: Skip(reason="nothing to clean")
    world.add_table(action_types=frozenset({CLEAN}))
    world.coordinator.run_once()
    world.factory.strategies[CLEAN] = at_fixed_rate(timedelta(minutes=30))
    world.restart()
    for _ in range(35):
        world.look()
        world.clock.pass_by(minutes=1)
    assert len(world.factory.times_asked(CLEAN)) == 2


class Hanging:
    """A storage that hangs at one table until the test is over."""

    def __init__(self, at: str, probe: Any) -> None:
        self.at, self.probe = at, probe
        self.opened, self.waiting = threading.Event(), 0

    def __call__(self, reference: TableReference) -> Any:
        if reference.location == self.at:
            self.waiting += 1
            self.opened.wait()
        return self.probe(reference)


@pytest.fixture
def threads(store: Any) -> Iterator[World]:
    made = World(store, pools=lambda: WorkerPools(purpose="test", size=1, timeout=60.0))
    yield made
    for pools in made.pools:
        pools.close(timeout=0.0)


def test_a_probe_that_hangs_is_abandoned_and_those_behind_it_come_soon(threads: World, sentences: Sentences) -> None:
    tables = [threads.add_table(f"t{n:02}") for n in range(FEW + 2)]
    threads.coordinator.run_once()
    assert eventually(lambda: all_looked_at(threads, tables))
    bad = tables.pop(3)
    for one in tables:
        threads.tables.plan(one.location, T1)
    threads.clock.pass_by(minutes=11)
    vars(threads.tables)["probe"] = hanging = Hanging(bad.location, threads.tables.probe)
    threads.prober.run_once()
    assert eventually(lambda: hanging.waiting == 1)
    threads.evaluate_pools.abandon_overdue(a_while_later())
    threads.prober.run_once()
    threads.clock.pass_by(seconds=30)
    assert eventually(lambda: all_have_an_operation(threads, tables))
    assert hanging.waiting == 1
    text = schedules(threads, bad)["compaction"].last_reason
    found = {"since": TIME, "method": "hudi.probe", "seconds": SECONDS}
    sentences.check("the last evaluation still hangs", text, **found)
    hanging.opened.set()
    assert eventually(lambda: not threads.plugins.formats[HUDI].breaker._hanging)  # type: ignore[attr-defined]


def all_looked_at(world: World, tables: list[Table]) -> bool:
    world.coordinator.run_once()
    return all(world.store.tables.get(one.id).probed_at for one in tables)


def all_have_an_operation(world: World, tables: list[Table]) -> bool:
    world.look()
    return all(world.store.operations.of_table(one.id, recent=9) for one in tables)
