# SPDX-License-Identifier: Apache-2.0
"""What the loops report to the metrics."""

from typing import Any

import pytest

from lakehand.core.loops.engine_supervisor import EngineSupervisor
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.errors import Unavailable
from lakehand.domain.operations import InstanceId, Status
from lakehand.domain.processes import Drop, Failure, Skip
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.spi import EngineState
from lakehand.store import SqlStore
from tests.core.world import AtOnce, PassedClock, World
from tests.domain.words import COMPACTION

T1 = "20261115110000000"


def finished(world: World) -> list[tuple[str, str, Status]]:
    ends = world.metrics.named("finished")
    return [(str(kind), operation.process.action, operation.status) for operation, kind, _ in ends]


def test_an_operation_that_ends_is_counted_once_with_the_format_of_its_table(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.turn()
    world.turn()

    assert finished(world) == [("hudi", "compaction", Status.SUCCEEDED)]


def test_an_attempt_that_is_followed_by_another_one_ends_no_operation(world: World) -> None:
    world.tables.plan(world.add_table().location, T1)
    world.turn()
    world.engine.says(EngineState.FAILED, error_class="Boom", message="disk full")
    world.turn()

    assert finished(world) == []
    assert len(world.metrics.named("attempt_failed")) == 1


def test_an_action_that_is_kept_waiting_for_too_long_is_counted_and_explained(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    starved, resting = Skip(reason="never quiet", is_starved=True), Skip(reason="it rests")
    table = world.add_table()
    world.factory.says[COMPACTION] = lambda _: starved
    world.look()
    assert [(str(kind), action) for kind, action in world.metrics.named("starved")] == [("hudi", "compaction")]
    assert world.store.schedules.of_table(table.id)[0].last_reason == "never quiet"

    del world.factory.says[COMPACTION]
    for answer in (resting, starved):
        monkeypatch.setattr(world.factory, "admit", lambda *_, answer=answer: answer)
        world.tables.plan(table.location, T1)
        world.clock.pass_by(minutes=10)
        world.turn()
    assert world.the_operation(table).reason == "never quiet"
    assert len(world.metrics.named("starved")) == 2, "a rest is not starvation"


@pytest.mark.parametrize(
    ("answer", "status"),
    [(Drop(reason="gone"), Status.DROPPED), (Failure(reason="refused", message="refused"), Status.FAILED)],
)
def test_what_ends_before_an_engine_had_it_is_counted_too(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: object, status: Status
) -> None:
    monkeypatch.setattr(world.factory, "admit", lambda *_: answer)
    world.tables.plan(world.add_table().location, T1)
    world.turn()

    assert finished(world) == [("hudi", "compaction", status)]


class Away(PassedClock):
    """The clock of a database that does not answer."""

    def now(self) -> Any:
        raise Unavailable("the database is away")


def supervisor(store: SqlStore, metrics: PrometheusMetrics) -> EngineSupervisor:
    return EngineSupervisor(
        store=store, plugins=Plugins(formats={}, factories={}, engines={}), metrics=metrics, holder=InstanceId("a"),
        host="here", version="1", pools=[AtOnce()],
    )  # fmt: skip


def test_the_database_is_up_while_it_answers_and_accepts_writes(store: SqlStore) -> None:
    metrics = PrometheusMetrics()
    one = supervisor(store, metrics)
    one.run_once()
    assert metrics.registry.get_sample_value("lakehand_database_up") == 1

    store.database.report("disk is full")
    one.run_once()
    assert metrics.registry.get_sample_value("lakehand_database_up") == 0
    assert metrics.registry.get_sample_value("lakehand_database_seconds_count") == 2


def test_a_database_that_does_not_answer_is_down(store: Any) -> None:
    metrics = PrometheusMetrics()
    one = supervisor(store, metrics)
    one.run_once()
    store.clock = Away()

    with pytest.raises(Unavailable):
        one.run_once()
    assert metrics.registry.get_sample_value("lakehand_database_up") == 0
