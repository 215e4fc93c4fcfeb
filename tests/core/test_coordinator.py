# SPDX-License-Identifier: Apache-2.0
"""Schedules are evaluated when they are due, and decided only where something may have changed."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from lakehand.domain.notifications import Notification
from lakehand.domain.processes import Instant, Skip, TableProcess
from lakehand.domain.tables import Scheduling, Table
from lakehand.spi import TableRuntime
from tests.core.world import ANN, NOON, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

T1 = "20261115110000000"


def test_a_new_table_is_evaluated_at_once(world: World) -> None:
    world.add_table()
    world.look()
    assert world.factory.triggered == 1


def test_an_unchanged_table_is_probed_at_its_heartbeat_and_not_decided_again(world: World) -> None:
    world.add_table()
    world.look()
    assert world.tables.probes == 2  # the probe and the inspection of the first look
    world.clock.pass_by(minutes=10)  # the second look comes at a time of the table's own, at the latest now
    world.look()
    world.clock.pass_by(minutes=5)
    world.look()
    assert world.tables.probes == 3
    world.clock.pass_by(minutes=6)
    world.look()
    assert (world.tables.probes, world.factory.triggered) == (4, 1)


def test_a_lost_notification_is_found_within_the_heartbeat_timeout(world: World) -> None:
    table = world.add_table()
    world.look()
    world.tables.plan(table.location, T1)
    world.clock.pass_by(minutes=10)
    world.look()
    assert world.the_operation(table).instant == T1


def test_a_callback_wakes_the_table_long_before_its_heartbeat(world: World) -> None:
    table = world.add_table()
    world.look()
    world.tables.plan(table.location, T1)
    world.clock.pass_by(seconds=1)
    world.intake.record([Notification(source="callback", location=table.location)])
    world.look()
    assert world.the_operation(table).instant == T1


def test_a_notification_after_a_token_was_stored_is_not_answered_with_that_token(world: World) -> None:
    table = world.add_table()
    world.look()
    world.tables.plan(table.location, T1)
    world.clock.pass_by(minutes=10)
    world.prober.run_once()  # it stores the token of this change, and wakes the schedules
    world.tables.complete(table.location, T1)
    world.intake.record([Notification(source="event", location=table.location)])

    world.coordinator.run_once()

    [schedule] = world.store.schedules.of_table(table.id)
    assert schedule.seen_token == world.tables.tokens[table.location]


def test_one_bad_table_says_why_and_stops_no_other(world: World, sentences: Sentences) -> None:
    bad, good = world.add_table("bad"), world.add_table("good")
    world.tables.broken.add(bad.location)
    world.tables.plan(good.location, T1)
    world.look()
    assert world.the_operation(good).instant == T1
    [schedule] = world.store.schedules.of_table(bad.id)
    found = {"location": bad.location, "why": "the storage is on fire"}
    sentences.check("a table cannot be read", schedule.last_reason, **found)


def test_a_trigger_that_raises_is_the_trouble_of_its_own_table(
    world: World, monkeypatch: Any, sentences: Sentences
) -> None:
    table = world.add_table()
    monkeypatch.setattr(world.factory, "trigger", lambda *_: 1 / 0)
    world.look()
    [schedule] = world.store.schedules.of_table(table.id)
    found = {"method": "pretend.trigger", "error": "ZeroDivisionError: division by zero"}
    sentences.check("the evaluation failed", schedule.last_reason, **found)
    assert NOON < schedule.due <= NOON + timedelta(minutes=1)


def test_a_trigger_that_returns_nonsense_is_named(world: World, monkeypatch: Any, sentences: Sentences) -> None:
    table = world.add_table()
    monkeypatch.setattr(world.factory, "trigger", lambda *_: "compact it!")
    world.look()
    [schedule] = world.store.schedules.of_table(table.id)
    found = {"method": "pretend.trigger", "kind": "str", "kinds": "TableProcess, Skip"}
    sentences.check("the evaluation returned another type", schedule.last_reason, **found)


def test_a_paused_table_is_left_alone_until_it_is_resumed(world: World) -> None:
    table = world.add_table()
    world.change(table, paused=True)
    world.tables.plan(table.location, T1)
    world.turn()
    assert not world.store.operations.of_table(table.id, recent=9)
    world.change(table, paused=False)
    world.turn()
    assert world.the_operation(table).instant == T1


def test_removing_a_table_ends_what_waits_for_it(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.look()
    world.table_service.remove(ANN, table.id)
    ended = world.the_operation(table)
    assert (ended.status, ended.is_deleted) == ("canceled", True)


def test_a_table_that_is_resumed_is_decided_upon_at_once(world: World) -> None:
    table = world.add_table()
    world.look()
    world.change(table, paused=True)
    world.change(table, paused=False)
    world.look()
    assert world.factory.triggered == 2


@pytest.mark.parametrize("changes", [{"properties": {"pretend.x": "y"}}, {"scheduling": Scheduling.SERVICE}])
def test_a_table_whose_settings_change_is_decided_upon_at_once(world: World, changes: dict[str, Any]) -> None:
    table = world.add_table()
    world.look()
    world.change(table, priority=3)
    world.look()
    assert world.factory.triggered == 1
    world.change(table, **changes)
    world.look()
    assert world.factory.triggered == 2


def notify_partitions(world: World, table: Table, *names: str) -> None:
    world.intake.record([Notification(source="event", location=table.location, partitions=names)])


def use_partitions(world: World, seen: list[Sequence[str]], meanwhile: Callable[[], None] = lambda: None) -> None:
    """A factory that asks for named partitions, and plans whenever there is none of its operations."""

    def answer(table: TableRuntime) -> TableProcess | Skip:
        if table.operations():
            return Skip(reason="once is enough")
        seen.append(table.changed_partitions())
        meanwhile()
        return TableProcess(action=COMPACTION, job="pretend.run", instant=Instant(T1), reason="asked")

    world.factory.says[COMPACTION] = answer


def test_a_decision_gets_the_partitions_that_events_named_and_uses_them_up(world: World) -> None:
    table, seen = world.add_table(), list[Sequence[str]]()
    use_partitions(world, seen)
    notify_partitions(world, table, "day=1", "day=2")

    world.look()

    assert seen == [("day=1", "day=2")]
    assert world.the_operation(table).instant == T1
    assert world.store.partitions.changed(table.id).names == ()


def test_partitions_that_are_named_during_the_decision_are_for_the_next_one(world: World) -> None:
    table, seen = world.add_table(), list[Sequence[str]]()
    use_partitions(world, seen, lambda: notify_partitions(world, table, "day=1"))
    notify_partitions(world, table, "day=1")

    world.look()

    assert seen == [("day=1",)]
    assert world.store.partitions.changed(table.id).names == ("day=1",)


def test_a_decision_that_leads_to_nothing_leaves_the_partitions_to_the_next(world: World) -> None:
    table, seen = world.add_table(), list[Sequence[str]]()

    def skip(runtime: TableRuntime) -> Skip:
        seen.append(runtime.changed_partitions())
        return Skip(reason="not worth it")

    world.factory.says[COMPACTION] = skip
    notify_partitions(world, table, "day=1")
    world.look()

    assert seen == [("day=1",)]
    assert world.store.partitions.changed(table.id).names == ("day=1",)
