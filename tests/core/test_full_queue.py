# SPDX-License-Identifier: Apache-2.0
"""What a limit holds back stops nothing else, however much of it waits, and each says why it waits."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakehand.api.operations import ActionAnswer
from lakehand.core.loops import dispatcher
from lakehand.core.services.explain import Explainer
from lakehand.domain.errors import Unavailable
from lakehand.domain.operations import NewOperation, Operation, Status
from lakehand.domain.processes import Instant, Skip, TableProcess
from lakehand.domain.rules import Limits
from lakehand.domain.tables import Table
from tests.core.world import CLEAN, PretendEngine, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

SMALL_WINDOW, MANY = 10, 40
JOB = "pretend.run"
BOTH = frozenset({COMPACTION, CLEAN})


@pytest.fixture(autouse=True)
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "WINDOW", SMALL_WINDOW)


class EngineAway(PretendEngine):
    def heartbeat_token(self) -> str | None:
        raise Unavailable("its cluster is gone")


def store_operation(
    world: World, table: Table, instant: str, process: TableProcess | None = None, **values: Any
) -> Operation:
    world.tables.plans.setdefault(table.location, set()).add(instant)
    process = process or TableProcess(action=COMPACTION, job=JOB)
    new = NewOperation(table=table.id, instant=Instant(instant), process=process, **values)
    return world.store.operations.add(new, now=world.clock.now())[0]


def store_many(world: World, process: TableProcess | None = None, count: int = MANY, **values: Any) -> Table:
    """More than one window holds, of a table each, all of them before any other. Returns the last one's table."""
    for number in range(count):
        table = world.add_table(f"many-{number}", action_types=BOTH)
        store_operation(world, table, str(number), process, **{"priority": 9, **values})
    return table


def store_the_other(world: World, engine: str = "spark", **values: Any) -> Operation:
    process = TableProcess(action=CLEAN, job=JOB, engine=engine)
    return store_operation(world, world.add_table("other", action_types=BOTH), "other", process, **values)


def with_engine(world: World, engine: PretendEngine, name: str) -> World:
    world.plugins = replace(world.plugins, engines={**world.plugins.engines, name: engine})
    world.restart()
    return world


def dispatch(world: World, rounds: int = 6) -> int:
    """So many rounds, a second apart. Returns how many operations run then."""
    for _ in range(rounds):
        world.dispatcher.run_once()
        world.clock.pass_by(seconds=1)
    return len(world.store.operations.held(world.holder))


def has_started(world: World, operation: Operation) -> bool:
    return world.store.operations.get(operation.id).status is Status.SUBMITTED


def explain(world: World, table: Table) -> ActionAnswer:
    explainer = Explainer(store=world.store, plugins=world.plugins, waits=world.dispatcher.waits)
    return next(action for action in explainer.explain(table.id).actions if action.unfinished)


def reason(world: World, table: Table) -> str:
    return explain(world, table).now


def test_a_full_queue_stops_no_other_queue(store: Any, sentences: Sentences) -> None:
    world = World(store, limits=Limits(queues={"slow": 2}))
    last = store_many(world, queue="slow")
    other = store_the_other(world)

    assert dispatch(world) == 3
    assert has_started(world, other)
    number = world.the_operation(last).id
    sentences.check("far behind in a full queue", reason(world, last), operation=number, queue="slow", limit=2)


def test_an_owner_with_its_share_stops_no_other_owner(store: Any, sentences: Sentences) -> None:
    world = World(store, limits=Limits(running=4))
    last = store_many(world, owner="greedy")
    other = store_the_other(world, owner="modest")

    world.dispatcher.run_once()
    world.dispatcher.run_once()
    assert has_started(world, other)
    assert dispatch(world) == 4, "nobody else waits any more, so that the greedy one gets the rest"
    sentences.check("far behind, all slots taken", reason(world, last), operation=world.the_operation(last).id, slots=4)


def test_two_owners_with_their_shares_do_not_wait_for_each_other(store: Any) -> None:
    world = World(store, limits=Limits(running=8, owner_share=0.25))
    for number in range(20):
        store_operation(
            world, world.add_table(f"t-{number}", action_types=BOTH), str(number), owner=f"owner-{number % 2}"
        )

    assert dispatch(world) == 8


def test_the_parallelism_of_one_action_stops_no_other_action(store: Any) -> None:
    world = World(store, limits=Limits(parallelism={("hudi", "compaction"): 1}))
    store_many(world)
    other = store_the_other(world)

    assert dispatch(world) == 2
    assert has_started(world, other)


def test_a_busy_table_stops_no_other_table(store: Any, sentences: Sentences) -> None:
    world = World(store)
    crowded = world.add_table("crowded", action_types=BOTH)
    for number in range(MANY):
        store_operation(world, crowded, f"{number:04}", priority=9)
    other = store_the_other(world)

    assert dispatch(world) == 2
    assert has_started(world, other)
    reasons = {o.reason for o in explain(world, crowded).unfinished if o.status is Status.PENDING}
    assert len(reasons) == 1
    sentences.check("behind another of its table", reasons.pop())


def test_an_engine_that_is_off_stops_no_other_engine(store: Any, sentences: Sentences) -> None:
    world = with_engine(World(store), EngineAway(), "away")
    last = store_many(world, TableProcess(action=COMPACTION, job=JOB, engine="away"))
    other = store_the_other(world)

    assert dispatch(world, rounds=3) == 1
    assert has_started(world, other)
    sentences.check("its engine is off", reason(world, last), operation=world.the_operation(last).id)


def test_an_engine_that_nobody_has_stops_no_other_engine(store: Any) -> None:
    world = World(store)
    store_many(world, TableProcess(action=COMPACTION, job=JOB, engine="nobody-has-it"))
    other = store_the_other(world)

    dispatch(world, rounds=3)
    assert has_started(world, other)


def test_an_engine_that_is_full_stops_no_other_engine(store: Any, sentences: Sentences) -> None:
    world = with_engine(World(store), PretendEngine(), "second")
    last = store_many(world)
    other = store_the_other(world, engine="second")

    assert dispatch(world) == world.engine.slots + 1
    assert has_started(world, other)
    number = world.the_operation(last).id
    sentences.check("its engine is full", reason(world, last), operation=number, capacity=world.engine.slots)


def test_what_is_put_back_at_each_admission_stops_no_other(store: Any) -> None:
    """A lower priority comes when it has waited as much longer as priorities say."""
    step = timedelta(minutes=1)
    world = World(store, limits=Limits(age_step=step))
    world.engine.slots = 2
    world.monitor.run_once()  # it reads the capacity anew
    world.factory.admit = lambda table, operation: (  # type: ignore[method-assign]
        operation.process if operation.process.action == CLEAN else Skip(reason="not now")
    )
    store_many(world, priority=1, count=15)
    other = store_the_other(world)

    while not has_started(world, other) and world.clock.now() - other.due_at < 4 * step:
        world.dispatcher.run_once()
        world.clock.pass_by(seconds=5)

    assert has_started(world, other)
