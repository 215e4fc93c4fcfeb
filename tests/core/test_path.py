# SPDX-License-Identifier: Apache-2.0
"""The path of one operation stays short: its transactions, probes and reads of the table are counted."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from lakehand.core.plugins.runtimes import KEEP_SNAPSHOTS, MOST_SNAPSHOTS, SnapshotCache
from lakehand.core.ports import TableFilter
from lakehand.domain.notifications import Notification
from lakehand.domain.operations import Status
from lakehand.domain.tables import Table, TableId
from lakehand.spi import EngineState
from lakehand.store.database import Database
from tests.core.world import PretendSnapshot, World
from tests.domain.words import COMPACTION

T1, T2 = "20261115110000000", "20261115120000000"
MOST_READS, MOST_WRITES = 8, 6


@pytest.fixture
def world(store: Any) -> World:
    """On the database's own clock, whose readings count."""
    made = World(store)
    made.store = store
    made.restart()
    return made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the database was read and written since the test cleared this."""
    counts: Counter[str] = Counter()
    for name in ("read", "write"):
        well = getattr(Database, name)

        def count(self: Database, work: Any, name: str = name, well: Any = well) -> Any:
            counts[name] += 1
            return well(self, work)

        monkeypatch.setattr(Database, name, count)
    return counts


def a_quiet_table(world: World) -> Table:
    """Registered, evaluated, and unchanged since."""
    table = world.add_table()
    for _ in range(2):
        world.turn()
    return table


def test_one_operation_from_its_notification_to_success_takes_few_transactions(
    world: World, calls: Counter[str]
) -> None:
    table = a_quiet_table(world)
    world.tables.plan(table.location, T1)
    world.tables.numbers[table.location] = {"files": 9}
    read_snapshot_in(world, "verify")
    calls.clear()

    world.intake.record([Notification(source="wire", location=table.location, action=COMPACTION, instants=(T1,))])
    world.coordinator.run_once()
    world.dispatcher.run_once()
    with uncounted(calls):  # the monitor reads the statuses again and again while the job runs
        world.engine.says(EngineState.RUNNING)
        world.monitor.run_once()
        assert world.the_operation(table).status is Status.RUNNING
    world.tables.complete(table.location, T1)
    world.tables.numbers[table.location] = {"files": 1}
    world.engine.says(EngineState.SUCCEEDED)
    world.monitor.run_once()

    assert calls["read"] <= MOST_READS
    assert calls["write"] <= MOST_WRITES
    assert world.the_operation(table).status is Status.SUCCEEDED
    assert [point.numbers["files"] for point in world.store.health.of_table(table.id)][-1] == 1


@contextmanager
def uncounted(calls: Counter[str]) -> Iterator[None]:
    before = Counter(calls)
    yield
    calls.clear()
    calls.update(before)


class Counted:
    """Counts the calls of a method and passes them on."""

    def __init__(self, part: Any, method: str) -> None:
        self.well, self.times = getattr(part, method), 0
        vars(part)[method] = self

    def __call__(self, *args: Any) -> Any:
        self.times += 1
        return self.well(*args)


def test_the_coordinator_uses_the_token_that_the_prober_has_just_stored(world: World) -> None:
    table = a_quiet_table(world)
    world.tables.plan(table.location, T1)
    make_probe_due(world)
    probe, inspect = Counted(world.tables, "probe"), Counted(world.tables, "inspect")
    world.look()
    assert world.the_operation(table).instant == T1
    assert (probe.times - inspect.times, inspect.times) == (1, 1)  # an inspection of these tables probes, too


def test_a_stored_token_that_is_old_or_seen_already_is_not_used(world: World) -> None:
    table = a_quiet_table(world)
    world.tables.plan(table.location, T1)
    world.table_service.evaluate_now(table.id)
    world.coordinator.run_once()
    assert world.the_operation(table).instant == T1, "the stored token was from before the change"


def make_probe_due(world: World) -> None:
    tables = world.store.tables.list(TableFilter(), limit=9, cursor=None).items
    world.store.probes.defer([t.id for t in tables], until=world.store.clock.now() - timedelta(seconds=1))


def read_snapshot_in(world: World, method: str) -> None:
    well = getattr(world.factory, method)

    def reads_first(runtime: Any, *args: Any) -> Any:
        runtime.snapshot()
        return well(runtime, *args)

    vars(world.factory)[method] = reads_first


@pytest.mark.parametrize(("changes", "reads"), [(False, 0), (True, 1)])
def test_admission_reuses_the_snapshot_while_the_token_is_the_same(world: World, changes: bool, reads: int) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    read_snapshot_in(world, "admit")
    world.coordinator.run_once()
    if changes:
        world.tables.plan(table.location, T2)
    inspect = Counted(world.tables, "inspect")
    world.dispatcher.run_once()
    assert world.the_operation(table).status is Status.SUBMITTED
    assert inspect.times == reads


def test_verification_always_reads_the_table(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    read_snapshot_in(world, "verify")
    inspect = Counted(world.tables, "inspect")
    world.engine.says(EngineState.FAILED)
    world.monitor.run_once()
    assert inspect.times == 1


def test_a_snapshot_is_not_kept_for_long_and_only_a_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cache = SnapshotCache()
    for n in range(MOST_SNAPSHOTS + 1):
        cache.put(TableId(n), PretendSnapshot(token="t"))
    assert cache.get(TableId(0), lambda: "t") is None
    assert cache.get(TableId(1), lambda: "t") == PretendSnapshot(token="t")
    assert cache.get(TableId(1), lambda: "changed") is None
    now[0] += KEEP_SNAPSHOTS + 1
    assert cache.get(TableId(1), lambda: "t") is None
