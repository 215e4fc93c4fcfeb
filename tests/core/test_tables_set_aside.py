# SPDX-License-Identifier: Apache-2.0
"""A table at which calls hang is set aside by itself: its format, its factory and their other tables go on."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakehand.app.wiring import THREADS
from lakehand.core.plugins.breakers import MOST_TABLES, CircuitBreaker
from lakehand.core.plugins.pools import WorkerPools, call_plugin
from lakehand.core.plugins.proxies import anything
from lakehand.core.services.explain import Explainer
from lakehand.domain.errors import PluginStuck
from lakehand.domain.operations import Status
from lakehand.domain.tables import Table
from lakehand.spi import EngineState
from tests.core.waiting import a_while_later, eventually
from tests.core.world import HUDI, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import SECONDS, TIME, Sentences

T1 = "20261115110000000"
BAD = 10  # more than there are threads


class HangingTables:
    """Calls about the bad tables wait until the test is over; the others are answered."""

    def __init__(self, world: World, tables: list[Table]) -> None:
        self.world = world
        self.locations = {table.location for table in tables}
        self.opened = threading.Event()
        self.waiting: list[str] = []

    def hang_in(self, part: Any, method: str) -> None:
        well = getattr(part, method)

        def hangs(about: Any, *args: Any) -> Any:
            location = about.table.location if hasattr(about, "table") else about.location
            if location in self.locations and not self.opened.is_set():
                self.waiting.append(location)
                self.opened.wait()
            return well(about, *args)

        vars(part)[method] = hangs


@pytest.fixture
def world(store: Any) -> Iterator[World]:
    made = World(store, pools=lambda: WorkerPools(purpose="test", size=THREADS, timeout=60.0))
    yield made
    for pools in made.pools:
        pools.close(timeout=0.0)


@pytest.fixture
def bad(world: World) -> Iterator[HangingTables]:
    made = HangingTables(world, [world.add_table(f"bad{n}") for n in range(BAD)])
    yield made
    made.opened.set()


def abandon_what_hangs(world: World) -> None:
    for pools in world.pools:
        pools.abandon_overdue(a_while_later())


def abandon_all(world: World, bad: HangingTables) -> None:
    """Until each of the bad tables was tried once and abandoned."""

    def all_tried() -> bool:
        abandon_what_hangs(world)
        world.coordinator.run_once()
        return len(bad.waiting) >= BAD and not world.evaluate_pools.busy()

    assert eventually(all_tried)


def decided(world: World, table: Table) -> bool:
    world.look()
    return [o.instant for o in world.store.operations.of_table(table.id, recent=9)] == [T1]


def reason(world: World, table: Table) -> str:
    [schedule] = world.store.schedules.of_table(table.id)
    return schedule.last_reason


@pytest.mark.parametrize("where", ["probe", "inspect", "trigger"])
def test_ten_tables_that_hang_keep_no_eleventh_of_their_format(world: World, bad: HangingTables, where: str) -> None:
    """The read itself may hang, or what a factory reads later; either way it is about one table."""
    bad.hang_in(world.factory if where == "trigger" else world.tables, where)
    if where == "inspect":
        world.factory.trigger = reads_first(world.factory.trigger)  # type: ignore[method-assign]
    world.coordinator.run_once()
    assert eventually(lambda: bool(bad.waiting))
    abandon_all(world, bad)
    good = world.add_table("good")
    world.tables.plan(good.location, T1)
    assert eventually(lambda: decided(world, good))
    breakers = [world.plugins.formats[HUDI].breaker, world.plugins.factories[HUDI, COMPACTION].breaker]  # type: ignore[attr-defined]
    assert sorted(breaker.state()[0] for breaker in breakers) == ["on", "slow"]
    assert sorted(bad.waiting) == sorted(bad.locations), "no second thread was sent to any of them"


def reads_first(trigger: Any) -> Any:
    def reads(runtime: Any, action: Any) -> Any:
        runtime.snapshot()
        return trigger(runtime, action)

    return reads


def test_a_table_that_is_set_aside_says_since_when_and_why_and_when_it_is_tried_again(
    world: World, bad: HangingTables, sentences: Sentences
) -> None:
    bad.hang_in(world.tables, "probe")
    world.coordinator.run_once()
    abandon_all(world, bad)
    table = world.store.tables.by_locations(["/lake/bad0"])["/lake/bad0"]
    assert eventually(lambda: (world.coordinator.run_once(), "hudi.probe" in reason(world, table))[1])
    world.clock.pass_by(minutes=11)
    world.coordinator.run_once()
    explainer = Explainer(store=world.store, plugins=world.plugins, waits=lambda *_: {})
    [text] = [a.now for a in explainer.explain(table.id).actions if a.action == COMPACTION]
    found = {"since": TIME, "method": "hudi.probe", "seconds": SECONDS}
    sentences.check("the last evaluation still hangs", text, **found)
    bad.opened.set()  # the calls end; the table stays aside for a minute, counted from the hang
    breaker: Any = world.plugins.formats[HUDI].breaker  # type: ignore[attr-defined]
    assert eventually(lambda: not breaker._hanging)
    assert eventually(lambda: "hudi.probe" not in evaluated(world, table))
    found = {"table": "/lake/bad0", "since": TIME, "seconds": SECONDS, "at": TIME, "again": TIME}
    sentences.check("a table that is set aside is not probed", reason(world, table), **found)


def evaluated(world: World, table: Table) -> str:
    world.clock.pass_by(minutes=11)
    world.coordinator.run_once()
    return reason(world, table)


def test_an_operation_of_a_table_that_hangs_keeps_no_other_from_its_verdict(world: World, sentences: Sentences) -> None:
    tables = [world.add_table(name) for name in ("bad", "good")]
    for table in tables:
        world.tables.plan(table.location, T1)
    assert eventually(lambda: all(decided(world, table) for table in tables))
    assert eventually(lambda: bool(world.dispatcher.run_once() or len(world.engine.works) == 2))
    hanging = HangingTables(world, tables[:1])
    hanging.hang_in(world.factory, "verify")
    for table in tables:
        world.tables.complete(table.location, T1)
    assert eventually(lambda: len(world.engine.works) == 2)
    world.engine.says(EngineState.SUCCEEDED)
    assert eventually(lambda: bool(world.monitor.run_once() or hanging.waiting))
    abandon_what_hangs(world)
    world.monitor.engines["spark"]._not_before.clear()
    assert eventually(lambda: after_a_round(world, tables[0]) is Status.UNKNOWN)
    found = {"table": "/lake/bad", "since": TIME, "seconds": SECONDS, "at": TIME, "again": TIME}
    sentences.check("a verdict hung", world.the_operation(tables[0]).reason, **found)
    assert eventually(lambda: after_a_round(world, tables[1]) is Status.SUCCEEDED)
    assert hanging.waiting == ["/lake/bad"]
    hanging.opened.set()


def after_a_round(world: World, table: Table) -> Status:
    world.monitor.run_once()
    return world.the_operation(table).status


@pytest.fixture
def plugin() -> CircuitBreaker:
    return CircuitBreaker(kind="table-format", name="hudi")


def ask(plugin: CircuitBreaker, table: str) -> str:
    return call_plugin(plugin, table, "probe", anything, lambda: "token")


def test_a_table_that_hangs_again_and_again_is_left_alone_for_longer_each_time(
    plugin: CircuitBreaker, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for rest in (60, 120, 240, 480, 960, 1920, 3600, 3600):
        plugin.abandoned("call", "probe", 60.0, "/lake/bad")
        plugin.returned_late("call", "/lake/bad")
        with pytest.raises(PluginStuck) as stuck:
            ask(plugin, "/lake/bad")
        found = {"table": "/lake/bad", "since": TIME, "seconds": 60, "at": TIME, "again": TIME}
        sentences.check("a table is set aside after a call that hung", str(stuck.value), **found)
        assert stuck.value.again.total_seconds() == rest
        assert ask(plugin, "/lake/good") == "token"
        now[0] += rest
    assert ask(plugin, "/lake/bad") == "token"
    plugin.abandoned("call", "probe", 60.0, "/lake/bad")
    plugin.returned_late("call", "/lake/bad")
    with pytest.raises(PluginStuck) as stuck:
        ask(plugin, "/lake/bad")
    assert stuck.value.again.total_seconds() == 60, "a good answer makes it as good as any other"


def test_a_table_is_not_tried_while_its_call_still_hangs(
    plugin: CircuitBreaker, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    plugin.abandoned("call", "inspect", 60.0, "/lake/bad")
    now[0] += 10_000
    with pytest.raises(PluginStuck) as stuck:
        ask(plugin, "/lake/bad")
    found = {"table": "/lake/bad", "since": TIME, "seconds": 60, "at": TIME, "again": TIME}
    sentences.check("a table is set aside until a call ends", str(stuck.value), **found)
    plugin.returned_late("call", "/lake/bad")
    assert ask(plugin, "/lake/bad") == "token"
    assert plugin._tables, "another method answered: the one that hung has not"


def test_a_format_is_stuck_only_when_calls_at_many_different_tables_hang_at_once(
    plugin: CircuitBreaker, sentences: Sentences
) -> None:
    for n in range(MOST_TABLES - 1):
        plugin.abandoned(n, "probe", 60.0, f"/lake/bad{n}")
    assert plugin.state()[0] == "slow"
    assert ask(plugin, "/lake/good") == "token"
    plugin.abandoned("more", "probe", 60.0, "/lake/bad0")  # the same table again
    assert plugin.state()[0] == "slow"
    plugin.abandoned("last", "probe", 60.0, "/lake/one-too-many")
    assert plugin.state()[0] == "stuck"
    with pytest.raises(PluginStuck) as stuck:
        ask(plugin, "/lake/good")
    found = {"plugin": "hudi", "method": "probe", "hung": "probe", "seconds": 60, "at": TIME}
    sentences.check("a stuck plugin is not asked", str(stuck.value), **found)


def test_a_stuck_format_whose_trial_is_answered_is_trusted_again(
    plugin: CircuitBreaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for n in range(MOST_TABLES):
        plugin.abandoned(n, "probe", 60.0, f"/lake/bad{n}")
    now[0] += 61
    assert ask(plugin, "/lake/good") == "token"
    assert ask(plugin, "/lake/other") == "token"
    assert plugin.state()[0] == "slow"


def test_a_call_about_no_table_makes_its_plugin_stuck_at_once(plugin: CircuitBreaker) -> None:
    plugin.abandoned("call", "supported_actions", 60.0)
    with pytest.raises(PluginStuck):
        call_plugin(plugin, "", "supported_actions", anything, dict)
