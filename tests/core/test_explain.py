# SPDX-License-Identifier: Apache-2.0
"""A table can always say why something runs, why not, and when it will be evaluated again."""

from lakehand.core.explain import Explainer, Explanation
from lakehand.domain.notifications import Notification
from lakehand.domain.tables import TableChanges, TableId
from lakehand.spi import EngineState
from tests.core.world import World

T1 = "20261115110000000"


def explain(world: World, table: TableId) -> Explanation:
    return Explainer(store=world.store, plugins=world.plugins, waits=world.dispatcher.waits).explain(table)


def compaction(world: World, table: TableId) -> str:
    return next(a.now for a in explain(world, table).actions if a.action == "compaction")


def test_a_quiet_table_says_why_nothing_runs_and_when_it_is_looked_at_again(world: World) -> None:
    table = world.add_table()
    assert compaction(world, table.id) == "registered, not evaluated yet"
    world.turn()
    explanation = explain(world, table.id)
    assert (explanation.summary, compaction(world, table.id)) == ("nothing to do", "no pending plan")
    assert explanation.next_look is not None
    assert explanation.next_look > world.clock.now()


def test_an_action_that_is_not_wanted_says_how_to_want_it(world: World) -> None:
    table = world.add_table()
    [clean] = [a for a in explain(world, table.id).actions if a.action == "clean"]
    assert (clean.wanted, clean.now) == (False, f"not wanted: lakehand tables change {table.id} --actions +clean")


def test_a_waiting_operation_names_the_rule_that_holds_it(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.engine.slots = 0
    world.monitor.run_once()
    world.turn()
    assert "all 0 slots are taken" in compaction(world, table.id)


def test_a_running_operation_tells_its_phase(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.engine.says(EngineState.RUNNING, progress={"phase": "merging"})
    world.turn()
    assert "is running (merging), attempt 1" in compaction(world, table.id)
    assert explain(world, table.id).summary == "1 running"


def test_a_paused_table_says_so(world: World) -> None:
    table = world.add_table()
    world.table_service.change(table.id, TableChanges(paused=True))
    assert explain(world, table.id).summary == "paused: nothing is started"


def test_partitions_that_events_named_are_shown_until_a_decision_uses_them(world: World) -> None:
    table = world.add_table()
    names = tuple(f"day={n}" for n in range(4))
    world.intake.record([Notification(source="event", location=table.location, partitions=names)])
    world.turn()
    assert explain(world, table.id).summary == "nothing to do; events named 4 partitions: day=0, day=1, day=2, ..."
