# SPDX-License-Identifier: Apache-2.0
"""A plugin that hangs, in whichever call, delays nobody else, and its state shows that it hangs."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakehand.core.plugins.pools import WorkerPools
from lakehand.core.plugins.proxies import proxy_of
from lakehand.domain.operations import Operation, Status
from lakehand.domain.tables import Table, TableReference
from lakehand.spi import Action, EngineState, Format, Handle, ProcessFactory, Skip, TableProcess, TableRuntime, Verdict
from tests.core.waiting import a_while_later, eventually
from tests.core.world import HUDI, PretendEngine, PretendTables, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import SECONDS, TIME, Sentences

T1 = "20261115110000000"
LOCATION = re.compile(r"/lake/slow\d")
ODD_WORK = Action.register("odd-work")
SLOW = Format("slow")
BOTH = frozenset({COMPACTION, ODD_WORK})


class Gate:
    """Where calls hang until the test is over."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.waiting = 0

    def wait(self, *_: object) -> Any:
        self.waiting += 1
        self.opened.wait()


class OddFactory(ProcessFactory):
    """Has an action of its own for Hudi tables, and never comes back from it."""

    name = "odd"

    def __init__(self, hang: Callable[..., Any]) -> None:
        self.hang = hang

    def supported_actions(self) -> Mapping[Format, frozenset[Action]]:
        return {HUDI: frozenset({ODD_WORK})}

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        return self.hang()  # type: ignore[no-any-return]

    def verify(self, table: TableRuntime, process: TableProcess, result: Mapping[str, Any]) -> Verdict:
        raise NotImplementedError


class SlowTables(PretendTables):
    """Another format, whose storage hangs."""

    format = SLOW

    def __init__(self, hang: Callable[..., Any]) -> None:
        super().__init__()
        self.hang = hang

    def probe(self, reference: TableReference) -> str:
        self.hang()
        return "t0"


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def world(store: Any, gate: Gate) -> Iterator[World]:
    """An instance with real worker pools, an odd factory and a slow format beside its own."""
    made = World(store, pools=lambda: WorkerPools(purpose="test", size=2, timeout=60.0))
    odd, slow = proxy_of(OddFactory(gate.wait)), proxy_of(SlowTables(gate.wait))
    odd.breaker.most_tables, slow.breaker.most_tables = 1, 4  # so few, to see what follows when it is too many
    factories = {
        **made.plugins.factories,
        (HUDI, ODD_WORK): odd,
        (SLOW, COMPACTION): made.plugins.factories[HUDI, COMPACTION],
    }
    made.plugins = replace(made.plugins, formats={**made.plugins.formats, SLOW: slow}, factories=factories)
    made.restart()
    yield made
    for pools in made.pools:
        pools.close(timeout=0.0)


def abandon_what_hangs(world: World) -> None:
    """As if every deadline had passed."""
    for pools in world.pools:
        pools.abandon_overdue(a_while_later())


def state_of(plugin: Any) -> str:
    return str(plugin.breaker.state()[0])


def has_operation(world: World, table: Table) -> bool:
    return [o.instant for o in world.store.operations.of_table(table.id, recent=9)] == [T1]


def reasons(world: World, table: Table) -> dict[str, str]:
    return {str(s.action): s.last_reason for s in world.store.schedules.of_table(table.id)}


def test_an_endless_trigger_keeps_neither_its_table_nor_others(world: World, gate: Gate, sentences: Sentences) -> None:
    both, other = world.add_table("both", action_types=BOTH), world.add_table("other")
    for table in (both, other):
        world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    assert eventually(lambda: has_operation(world, both) and has_operation(world, other))
    assert eventually(lambda: gate.waiting == 1)
    abandon_what_hangs(world)
    world.coordinator.run_once()
    reason = reasons(world, both)["odd-work"]
    sentences.check("a trigger hung", reason, since=TIME, method="odd.trigger", seconds=SECONDS)
    assert state_of(world.plugins.factories[HUDI, ODD_WORK]) == "stuck"


def test_a_factory_that_hangs_everywhere_keeps_no_more_than_its_own_pool(world: World, gate: Gate) -> None:
    for n in range(3):
        world.add_table(f"odd{n}", action_types=BOTH)
    world.coordinator.run_once()
    assert eventually(lambda: gate.waiting == 2)  # the size of its pool
    table = world.add_table("later")
    world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    assert eventually(lambda: has_operation(world, table))


def test_a_stuck_factory_is_not_asked_and_its_tables_say_why(world: World, gate: Gate, sentences: Sentences) -> None:
    world.add_table("first", action_types=BOTH)
    world.coordinator.run_once()
    assert eventually(lambda: gate.waiting == 1)
    abandon_what_hangs(world)
    later = world.add_table("later", action_types=BOTH)
    world.coordinator.run_once()
    assert eventually(lambda: not world.evaluate_pools.busy())
    world.coordinator.run_once()
    assert gate.waiting == 1
    found = {"plugin": "odd", "method": re.compile(r"trigger_strategy|trigger"), "seconds": SECONDS, "at": TIME}
    sentences.check("a factory is not asked", reasons(world, later)["odd-work"], **found)
    assert reasons(world, later)["compaction"] == "no pending plan"


def test_an_endless_loop_in_a_trigger_is_abandoned_and_counted(world: World, gate: Gate) -> None:
    """No exception is raised in its thread: it runs on, and no second one is sent after it."""
    begun = threading.Event()

    def endless() -> None:
        begun.set()
        while not gate.opened.is_set():
            time.sleep(0)  # busy, but fair to the other threads of the test

    odd: Any = world.plugins.factories[HUDI, ODD_WORK]
    odd.inner.hang = endless
    world.add_table(action_types=BOTH)
    world.coordinator.run_once()
    assert eventually(begun.is_set)
    abandon_what_hangs(world)
    assert (odd.breaker.hangs, len(odd.breaker._hanging)) == (1, 1)
    assert state_of(odd) == "stuck"
    gate.opened.set()
    assert eventually(lambda: not odd.breaker._hanging)


def test_a_slow_format_keeps_no_other_format_waiting(world: World, gate: Gate) -> None:
    for n in range(10):
        world.add_table(f"slow{n}", format=SLOW)
    first = world.add_table("first")
    world.tables.plan(first.location, T1)
    world.coordinator.run_once()
    second = world.add_table("second")
    world.tables.plan(second.location, T1)
    world.coordinator.run_once()
    assert eventually(lambda: has_operation(world, first) and has_operation(world, second))
    assert gate.waiting <= 2  # the size of its own pool


def test_a_slow_table_is_never_evaluated_by_two_threads(world: World, gate: Gate, sentences: Sentences) -> None:
    table = world.add_table("slow", format=SLOW)
    world.coordinator.run_once()
    assert eventually(lambda: gate.waiting == 1)
    abandon_what_hangs(world)
    world.coordinator.run_once()
    reason = reasons(world, table)["compaction"]
    found = {"location": table.location, "since": TIME, "method": "slow.probe", "seconds": SECONDS}
    sentences.check("a probe hung", reason, **found)
    world.clock.pass_by(minutes=11)
    world.coordinator.run_once()
    assert gate.waiting == 1
    reason = reasons(world, table)["compaction"]
    found = {"since": TIME, "method": "slow.probe", "seconds": SECONDS}
    sentences.check("the last evaluation still hangs", reason, **found)


def test_a_full_pool_defers_the_rest_and_keeps_their_wake_ups(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_table("slow0", format=SLOW)
    world.coordinator.run_once()
    monkeypatch.setattr(world.evaluate_pools, "has_room", lambda _: False)
    table = world.add_table("slow1", format=SLOW)
    world.table_service.evaluate_now(table.id)
    world.coordinator.run_once()
    [schedule] = world.store.schedules.of_table(table.id)
    assert (schedule.evaluated_at, schedule.wakes, schedule.token) == (None, 1, None)
    assert schedule.due > world.clock.now()


def test_tables_that_hang_one_after_the_other_make_their_format_stuck(
    world: World, gate: Gate, sentences: Sentences
) -> None:
    tables = [world.add_table(f"slow{n}", format=SLOW) for n in range(6)]
    world.coordinator.run_once()
    for hanging in range(1, 4):
        assert eventually(lambda: gate.waiting >= hanging)  # noqa: B023
        abandon_what_hangs(world)
        assert state_of(world.plugins.formats[SLOW]) in ("slow", "stuck")
    assert eventually(lambda: gate.waiting >= 4)
    abandon_what_hangs(world)
    assert state_of(world.plugins.formats[SLOW]) == "stuck"
    assert eventually(lambda: not world.evaluate_pools.busy())
    world.coordinator.run_once()
    said = [reasons(world, t)["compaction"] for t in tables]
    refused = [reason for reason in said if "slow.probe" not in reason]
    assert len(refused) == 6 - gate.waiting >= 1
    for reason in refused:
        found = {"location": LOCATION, "plugin": "slow", "seconds": SECONDS, "at": TIME}
        sentences.check("a format is not asked", reason, **found)


def two_pending(world: World) -> tuple[Table, Table]:
    bad, good = world.add_table("bad"), world.add_table("good")
    for table in (bad, good):
        world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    assert eventually(lambda: has_operation(world, bad) and has_operation(world, good))
    return bad, good


def hang_for(world: World, gate: Gate, bad: Table, method: str) -> None:
    """The factory's method never comes back for one table."""
    well = getattr(world.factory, method)

    def hangs(runtime: Any, *args: Any) -> Any:
        return gate.wait() if runtime.table.id == bad.id else well(runtime, *args)

    vars(world.factory)[method] = hangs


def test_an_endless_admission_keeps_no_other_operation(world: World, gate: Gate, sentences: Sentences) -> None:
    bad, good = two_pending(world)
    hang_for(world, gate, bad, "admit")
    world.dispatcher.run_once()
    assert eventually(lambda: world.the_operation(good).status is Status.SUBMITTED and gate.waiting == 1)
    abandon_what_hangs(world)
    put_back = world.the_operation(bad)
    assert (put_back.status, put_back.lease) == (Status.PENDING, None)
    sentences.check("an admission hung", put_back.reason, method="pretend.admit", seconds=SECONDS)
    gate.opened.set()
    assert eventually(lambda: not world.plugins.factories[HUDI, COMPACTION].breaker._hanging)  # type: ignore[attr-defined]
    assert [w.location for w in world.engine.works.values()] == [good.location]


def test_what_is_in_flight_counts_as_running(world: World, gate: Gate, sentences: Sentences) -> None:
    bad, good = two_pending(world)
    world.engine.slots = 1
    world.monitor.run_once()
    hang_for(world, gate, bad, "admit")
    hang_for(world, gate, good, "admit")
    world.dispatcher.run_once()
    assert eventually(lambda: gate.waiting == 1)
    world.dispatcher.run_once()
    assert gate.waiting == 1
    waiting = good if world.dispatcher.in_flight.keys() == {world.the_operation(bad).id} else bad
    [waits] = world.dispatcher.waits(waiting, [world.the_operation(waiting)]).values()
    sentences.check("all slots are taken", waits, slots=1)


def test_an_endless_verdict_keeps_no_other_operation_and_is_no_failure(
    world: World, gate: Gate, sentences: Sentences
) -> None:
    bad, good = two_pending(world)
    world.dispatcher.run_once()
    assert eventually(lambda: len(world.engine.works) == 2)
    hang_for(world, gate, bad, "verify")
    for table in (bad, good):
        world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    assert eventually(lambda: watched(world, good) is Status.SUCCEEDED and gate.waiting == 1)
    abandon_what_hangs(world)
    world.monitor.engines["spark"]._not_before.clear()
    assert eventually(lambda: watched(world, bad) is Status.UNKNOWN)
    found = {"table": bad.location, "since": TIME, "seconds": SECONDS, "at": TIME, "again": TIME}
    sentences.check("a verdict hung", world.the_operation(bad).reason, **found)


def watched(world: World, table: Table) -> Status:
    world.monitor.run_once()
    return world.the_operation(table).status


class HangingEngine(PretendEngine):
    """Takes work and then says nothing any more."""

    name = "other"

    def __init__(self, hang: Callable[..., Any]) -> None:
        super().__init__()
        self.hang = hang

    def status(self, handles: Any) -> Mapping[Handle, Any]:
        return self.hang()  # type: ignore[no-any-return]


def test_an_engine_that_hangs_keeps_no_other_engine_and_its_work_is_unknown(
    world: World, gate: Gate, sentences: Sentences
) -> None:
    other = HangingEngine(gate.wait)
    world.plugins = replace(world.plugins, engines={**world.plugins.engines, "other": proxy_of(other)})
    world.restart()
    world.engine_pools.size = 1
    bad, good = two_pending(world)
    admit: Any = world.factory.admit

    def admitted(runtime: Any, operation: Operation) -> TableProcess:
        engine = "other" if operation.table == bad.id else "spark"
        process: TableProcess = admit(runtime, operation)
        return replace(process, engine=engine)

    vars(world.factory)["admit"] = admitted
    world.dispatcher.run_once()
    assert eventually(lambda: bool(other.works and world.engine.works))
    world.monitor.run_once()
    assert eventually(lambda: gate.waiting == 1)
    world.tables.complete(good.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    assert eventually(lambda: watched(world, good) is Status.SUCCEEDED)
    abandon_what_hangs(world)
    assert eventually(lambda: watched(world, bad) is Status.UNKNOWN)
    unknown = world.the_operation(bad)
    found = {"engine": "other", "method": re.compile(r"capacity|status|renew"), "seconds": SECONDS, "at": TIME}
    sentences.check("an engine hung", unknown.reason, **found)
    assert unknown.lease is not None
    assert world.plugins.engines["other"].capacity == 0
    assert not world.plugins.engines["other"].health().is_up
