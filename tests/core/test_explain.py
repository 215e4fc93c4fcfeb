# SPDX-License-Identifier: Apache-2.0
"""A table can always say why something runs, why not, and when it will be evaluated again."""

from datetime import timedelta

from lakehand.api.operations import ActionAnswer, ExplanationAnswer
from lakehand.core.services.explain import Explainer
from lakehand.domain.notifications import Notification
from lakehand.domain.processes import Skip
from lakehand.domain.tables import TableId
from lakehand.spi import EngineState, ProcessTriggerStrategy
from tests.core.world import World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

T1 = "20261115110000000"


def explain(world: World, table: TableId) -> ExplanationAnswer:
    return Explainer(store=world.store, plugins=world.plugins, waits=world.dispatcher.waits).explain(table)


def compaction(world: World, table: TableId) -> str:
    return next(a.now for a in explain(world, table).actions if a.action == "compaction")


def test_a_quiet_table_says_why_nothing_runs_and_when_it_is_looked_at_again(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    sentences.check("never evaluated", compaction(world, table.id))
    world.turn()
    explanation = explain(world, table.id)
    sentences.check("nothing to do", explanation.summary)
    assert compaction(world, table.id) == "no pending plan"
    assert explanation.next_evaluation is not None
    assert explanation.next_evaluation > world.clock.now()


def test_an_action_that_is_not_wanted_says_how_to_want_it(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    [clean] = [a for a in explain(world, table.id).actions if a.action == "clean"]
    assert not clean.wanted
    command = f"lakehand tables change {table.id} --actions +clean"
    sentences.check("the action is not wanted", clean.now, command=command)


def test_a_waiting_operation_names_the_rule_that_holds_it(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.engine.slots = 0
    world.monitor.run_once()
    world.turn()
    operation = world.the_operation(table)
    sentences.check("an operation waits for a slot", compaction(world, table.id), operation=operation.id, slots=0)


def test_a_running_operation_tells_its_phase(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.engine.says(EngineState.RUNNING, progress={"phase": "merging"})
    world.turn()
    found = {"operation": world.the_operation(table).id, "phase": "merging", "attempt": 1}
    sentences.check("an operation is running", compaction(world, table.id), **found)
    sentences.check("operations are running", explain(world, table.id).summary, running=1)


def test_a_paused_table_says_so(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    world.change(table, paused=True)
    sentences.check("the table is paused", explain(world, table.id).summary)


def test_partitions_that_events_named_are_shown_until_a_decision_uses_them(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    names = tuple(f"day={n}" for n in range(4))
    world.intake.record([Notification(source="event", location=table.location, partitions=names)])
    world.turn()
    found = {"partitions": 4, "names": "day=0, day=1, day=2"}
    sentences.check("events named partitions", explain(world, table.id).summary, **found)


def decision(world: World, table: TableId) -> ActionAnswer:
    return next(a for a in explain(world, table).actions if a.action == "compaction")


def test_a_reason_has_the_time_at_which_its_numbers_were_read(world: World) -> None:
    counts = iter([1, 60])
    world.factory.strategies[COMPACTION] = ProcessTriggerStrategy(on_new_snapshot=False, interval=timedelta(hours=1))
    world.factory.says[COMPACTION] = lambda _: Skip(reason=f"{next(counts)} snapshots")
    table, first = world.add_table(), world.clock.now()
    world.look()

    world.clock.pass_by(minutes=30)
    world.store.schedules.wake([table.id], now=world.clock.now())
    world.look()
    later = decision(world, table.id)
    assert (later.now, later.evaluated_at, later.last_decision) == ("1 snapshots", world.clock.now(), first)

    world.clock.pass_by(hours=2)
    world.look()
    again = decision(world, table.id)
    assert (again.now, again.last_decision) == ("60 snapshots", world.clock.now())


def test_the_reason_of_an_evaluation_that_failed_has_its_time(world: World) -> None:
    table = world.add_table()
    world.look()
    world.clock.pass_by(hours=1)
    world.tables.broken.add(table.location)
    world.look()

    failed = decision(world, table.id)

    assert "on fire" in failed.now
    assert failed.last_decision == world.clock.now()
