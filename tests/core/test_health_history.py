# SPDX-License-Identifier: Apache-2.0
"""Health over time: what the loops store of it, in which transactions, and what a foreign plugin cannot break."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from lakehand.core.plugins.health_reader import SHARE, HealthReader, shared_numbers
from lakehand.core.plugins.pools import WorkerPools
from lakehand.domain.errors import Unavailable
from lakehand.domain.health import MOST_POINTS, HealthPoint
from lakehand.domain.operations import Status
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableId, TableReference
from lakehand.spi import EngineState
from lakehand.store.database import Database
from tests.core.waiting import a_while_later, eventually
from tests.core.world import NOON, World
from tests.kit.sentences import Sentences

T1 = "20261115110000000"


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts: Counter[str] = Counter()
    write = Database.write

    def count(self: Database, work: Any) -> Any:
        counts["write"] += 1
        return write(self, work)

    monkeypatch.setattr(Database, "write", count)
    return counts


@pytest.fixture(autouse=True)
def counting_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the pause after a reading would hide the next one."""
    monkeypatch.setattr("lakehand.core.plugins.health_reader.SHARE", 0)


def files_of(world: World, table: Table) -> list[object]:
    return [point.numbers.get("files") for point in world.store.health.of_table(table.id)]


def change(world: World, table: Table, files: int) -> None:
    world.tables.tokens[table.location] = f"{files} files at {world.clock.at}"
    world.tables.numbers[table.location] = {"files": files, "small_files": files - 1, "own": "text"}


def evaluate(world: World, table: Table) -> None:
    world.table_service.evaluate_now(table.id)
    world.coordinator.run_once()


def test_an_evaluation_stores_the_numbers_with_its_result(world: World, writes: Counter[str]) -> None:
    table = world.add_table()
    change(world, table, 9)
    writes.clear()

    world.coordinator.run_once()

    assert writes["write"] == 3  # the schedules are fitted to the plugins, claimed, and finished
    assert world.store.health.of_table(table.id) == [HealthPoint(at=NOON, numbers={"files": 9, "small_files": 8})]
    known = world.store.tables.get(table.id).health
    assert known == HealthPoint(at=NOON, numbers={"files": 9, "small_files": 8})


def test_an_operation_stores_what_it_made_of_the_table_with_its_end(world: World, writes: Counter[str]) -> None:
    table, verify = world.add_table(), world.factory.verify
    vars(world.factory)["verify"] = lambda runtime, *more: (runtime.snapshot(), verify(runtime, *more))[1]
    world.tables.plan(table.location, T1)
    world.turn()
    world.clock.pass_by(seconds=90)
    world.tables.complete(table.location, T1)
    change(world, table, 1)
    world.engine.says(EngineState.SUCCEEDED)
    writes.clear()

    world.monitor.run_once()

    assert world.the_operation(table).status is Status.SUCCEEDED
    assert writes["write"] <= 2  # the lease is renewed, and the operation ends
    assert world.store.health.of_table(table.id)[-1].at == world.clock.at == world.the_operation(table).finished_at
    assert files_of(world, table) == [1]


def test_the_same_numbers_are_not_stored_again_for_an_hour(world: World) -> None:
    table = world.add_table()
    for _ in range(5):
        change(world, table, 9)
        evaluate(world, table)
        world.clock.pass_by(minutes=20)

    times = [(point.at - NOON).total_seconds() / 60 for point in world.store.health.of_table(table.id)]
    assert times == [0, 60]


def test_other_numbers_are(world: World) -> None:
    table = world.add_table()
    for files in (3, 4, 5):
        change(world, table, files)
        evaluate(world, table)
        world.clock.pass_by(minutes=2)

    assert files_of(world, table) == [3, 4, 5]


@pytest.mark.parametrize("count", [50, pytest.param(300, marks=pytest.mark.long)])
def test_tables_that_change_every_minute_do_not_grow_the_database_without_end(world: World, count: int) -> None:
    """A point of each table every minute, stored as the coordinator stores them."""
    tables = [world.add_table(f"t{number}").id for number in range(count)]
    sizes = [grow(world, tables, minutes=1, times=60), *(grow(world, tables, minutes=1, times=15) for _ in range(3))]
    slots = [size / count for size in sizes]

    assert slots[0] <= 60 + 5 + 1 + 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(slots)), "then a row a quarter of an hour"
    sizes = [grow(world, tables, hours=7, times=120), grow(world, tables, hours=7, times=20)]
    assert sizes[-1] <= count * MOST_POINTS
    assert world.store.health.of_table(tables[7])[-1].at == world.clock.at


def grow(world: World, tables: Sequence[TableId], *, times: int, **step: int) -> int:
    """How many rows there are after so many more points of each table."""
    for number in range(times):
        world.clock.pass_by(**step)
        points = {table: HealthPoint(at=world.clock.at, numbers={"files": number}) for table in tables}
        world.store.probes.finish({}, {}, health=points, now=world.clock.at)
    return row_count(world)


def row_count(world: World) -> int:
    database: Database = world.store.database  # type: ignore[attr-defined]
    count = database.read(lambda tx: tx.exec_driver_sql("SELECT count(*) FROM health_point").scalar_one())
    assert isinstance(count, int)
    return count


# Tables that cannot be read


@pytest.mark.parametrize("finder", ["prober", "coordinator"])
def test_a_table_that_cannot_be_read_says_why_and_since_when_until_it_can(
    world: World, finder: str, sentences: Sentences
) -> None:
    table = world.add_table()
    world.turn()
    since = broken_by(world, table, finder)

    known = world.store.tables.get(table.id)
    found = {"location": "/lake/trips", "why": "the storage is on fire"}
    sentences.check("a table cannot be read", known.problem, **found)
    assert known.problem_since == since

    broken_by(world, table, finder)
    assert world.store.tables.get(table.id).problem_since == since

    world.tables.broken.clear()
    world.clock.pass_by(minutes=11)
    getattr(world, finder).run_once()
    known = world.store.tables.get(table.id)
    assert (known.problem, known.problem_since) == ("", None)


def broken_by(world: World, table: Table, finder: str) -> Any:
    world.tables.broken.add(table.location)
    world.clock.pass_by(minutes=11)
    at = world.clock.at
    if finder == "coordinator":
        world.table_service.evaluate_now(table.id)
    getattr(world, finder).run_once()
    return at


# Foreign plugins


class OddSnapshot:
    """Its numbers do what a test says."""

    token = "t0"

    def __init__(self, read: Any) -> None:
        self.read = read

    @property
    def numbers(self) -> Mapping[str, Json]:
        found: Mapping[str, Json] = self.read()
        return found


def odd_numbers(world: World, read: Any) -> None:
    def inspect(_reference: TableReference) -> OddSnapshot:
        return OddSnapshot(read)

    vars(world.tables)["inspect"] = inspect


def failing() -> Mapping[str, Json]:
    raise ZeroDivisionError("in the plugin")


@pytest.mark.parametrize("read", [failing, lambda: None, lambda: 7, lambda: {"files": "many"}, lambda: {3: 4}, dict])
def test_numbers_that_cannot_be_read_fail_no_evaluation(world: World, read: Any) -> None:
    odd_numbers(world, read)
    table = world.add_table()

    world.coordinator.run_once()

    [schedule] = world.store.schedules.of_table(table.id)
    assert schedule.last_reason == "no pending plan"
    assert world.store.health.of_table(table.id) == []
    assert world.plugins.format(table.format).breaker.state()[0] == "on"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ({"files": 3, "manifests": 4, "format_version": 2}, {"files": 3}),
        ({"files": 2**63, "bytes": 2**63 - 1}, {"bytes": 2**63 - 1}),
        ({"files": -1, "rows": None, "snapshots": True, "bytes": 1.5, "log_files": "3"}, {}),
        ({"histogram": {"< 1 MB": 2}}, {"histogram": {"< 1 MB": 2}}),
        ({"histogram": {"x" * 40: 2}}, {}),
        ({"histogram": {"\x00": 2}}, {}),
        ({"histogram": {str(n): n for n in range(40)}}, {}),
        ({"histogram": [1, 2]}, {}),
    ],
)
def test_only_sound_numbers_with_shared_names_are_kept(numbers: Any, kept: Any) -> None:
    assert shared_numbers(numbers) == kept


@pytest.fixture
def threads(store: Any) -> Iterator[World]:
    """Real pools, whose calls are abandoned after a moment."""
    made = World(store, pools=lambda: WorkerPools(purpose="test", size=2, timeout=0.1))
    yield made
    for pools in made.pools:
        pools.close(timeout=1.0)


def test_numbers_that_hang_keep_neither_the_decision_nor_the_next_ones(threads: World) -> None:
    world, gate = threads, threading.Event()
    counted: list[bool] = []

    def hang() -> dict[str, Json]:
        counted.append(gate.wait(30))
        return {"files": 1}

    odd_numbers(world, hang)
    table = world.add_table()

    world.coordinator.run_once()
    assert counted == [], "it did not wait for the numbers"
    [schedule] = world.store.schedules.of_table(table.id)
    assert schedule.last_reason == "no pending plan"

    world.count_pools.abandon_overdue(a_while_later())
    world.tables.plan(table.location, T1)
    evaluate(world, table)
    gate.set()
    assert world.the_operation(table).instant == T1
    assert world.store.tables.get(table.id).problem == ""
    assert world.plugins.format(table.format).breaker.state()[0] == "on"  # type: ignore[attr-defined]


def test_numbers_that_come_late_are_stored_with_a_later_transaction(
    threads: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, gate = threads, threading.Event()
    monkeypatch.setattr("lakehand.core.plugins.health_reader.LATE", 0.0)
    odd_numbers(world, lambda: {"files": 1} if gate.wait(30) else {})
    table = world.add_table()
    world.coordinator.run_once()
    assert files_of(world, table) == []

    gate.set()
    assert eventually(lambda: not world.health._in_flight)
    world.coordinator.run_once()

    assert files_of(world, table) == [1]


def test_a_point_waits_for_a_transaction_to_go_with(world: World) -> None:
    reader = world.health
    reader.keep(TableId(1), HealthPoint(at=NOON, numbers={"files": 1}), 0.0)

    assert reader.take_all(only_late=True) == {}
    assert list(reader.take_all()) == [1]
    assert reader.take_all() == {}


def test_a_point_that_could_not_be_stored_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, finish = world.add_table(), world.store.probes.finish
    change(world, table, 9)
    probes = type(world.store.probes)

    def away(*_: Any, **__: Any) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(probes, "finish", away)
    with pytest.raises(Unavailable):
        world.coordinator.run_once()
    monkeypatch.setattr(probes, "finish", lambda _self, *words, **more: finish(*words, **more))
    world.clock.pass_by(minutes=5)
    evaluate(world, table)

    assert files_of(world, table) == [9]


def test_the_newest_of_two_points_that_wait_is_stored(world: World) -> None:
    reader = world.health
    for minute, files in enumerate((1, 2, 1)):
        at = NOON + minute * timedelta(minutes=1)
        reader.keep(TableId(1), HealthPoint(at=at, numbers={"files": files}), 0.0)
        if minute == 0:
            reader.confirm(reader.take_all())

    assert reader.take(TableId(1)) == HealthPoint(at=NOON + timedelta(minutes=2), numbers={"files": 1})
    assert reader.take(TableId(1)) is None


def test_a_table_that_is_slow_to_count_is_counted_a_hundredth_of_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehand.core.plugins.health_reader.SHARE", SHARE)
    now, reads = [1000.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def slowly() -> Mapping[str, Json]:
        now[0] += 2.0
        reads.append(now[0])
        return {"files": len(reads)}

    reader, table = HealthReader(plugins=world.plugins, pools=world.count_pools), world.add_table()
    snapshot = OddSnapshot(slowly)
    for _ in range(60):
        reader.start(table, snapshot, NOON)
        now[0] += 10.0

    assert len(reads) == 3
    reader.start(table, snapshot, NOON, always=True)
    assert len(reads) == 4, "after an operation it is counted in any case"


def test_too_many_snapshots_do_not_wait_for_their_numbers(threads: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("lakehand.core.plugins.health_reader.FULL_WAIT", 0.001)
    snapshot = OddSnapshot(lambda: {"files": 1} if gate.wait(30) else {})
    tables = [threads.add_table(f"t{number}") for number in range(40)]
    for table in tables:
        threads.health.start(table, snapshot, NOON)

    assert len(threads.health._in_flight) == 32
    gate.set()
    assert eventually(lambda: not threads.health._in_flight)
    assert len(threads.health.take_all()) == 32
