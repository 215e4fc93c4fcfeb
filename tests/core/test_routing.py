# SPDX-License-Identifier: Apache-2.0
"""Operations reach the engine that fits them, and say why."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakehand.api.operations import OperationRequest
from lakehand.core.plugins.proxies import proxy_of
from lakehand.core.services.explain import Explainer
from lakehand.domain.operations import Status
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.routing import ESTIMATE
from lakehand.domain.tables import Table
from lakehand.spi import EngineState, Skip
from tests.core.world import PretendEngine, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

T1 = "20261115110000000"


class OwnApplications(PretendEngine):
    name = "spark-submit"


def with_applications(world: World) -> PretendEngine:
    engine, engines = OwnApplications(), dict[str, Any](world.plugins.engines)
    world.plugins = replace(world.plugins, engines={**engines, "spark-submit": proxy_of(engine)})
    world.restart()
    return engine


def planned(world: World, size: int, properties: Mapping[str, str]) -> Table:
    table = world.add_table(properties=dict(properties))
    world.tables.plan(table.location, T1)
    world.factory.says[COMPACTION] = lambda runtime: TableProcess(
        action=COMPACTION, job="pretend.run", instant=Instant(T1), parameters={ESTIMATE: size}
    )
    world.turn()
    world.turn()
    return table


def test_large_work_goes_to_an_application_and_small_work_to_the_driver(world: World, sentences: Sentences) -> None:
    applications = with_applications(world)
    table = planned(world, 3_000_000, {"large-from": "2MB"})

    operation = world.the_operation(table)
    assert (len(applications.works), len(world.engine.works)) == (1, 0)
    assert (operation.process.engine, operation.status) == ("spark-submit", Status.SUBMITTED)
    explained = (
        Explainer(store=world.store, plugins=world.plugins, waits=lambda *_: {}).explain(table.id).actions[-1].now
    )
    found = {"operation": operation.id, "engine": "spark-submit", "size": "2.9 MB", "limit": "2.0 MB"}
    sentences.check("large work of an application", explained, **found)


def test_the_table_decides_what_is_large(world: World) -> None:
    applications = with_applications(world)
    table = planned(world, 3_000_000, {"large-from": "3MB"})

    assert (len(applications.works), len(world.engine.works)) == (0, 1)
    attempt = world.store.operations.attempts(world.the_operation(table).id)[0]
    assert attempt.engine == "spark"


def test_an_attempt_after_a_failed_one_is_routed_anew(world: World) -> None:
    applications = with_applications(world)
    table = planned(world, 3_000_000, {"large-from": "2MB"})
    world.change(table, properties={"large-from": "5MB"})
    applications.says(EngineState.FAILED, message="out of memory")
    world.turn()
    world.clock.pass_by(hours=1)
    world.turn()

    assert (len(applications.works), len(world.engine.works)) == (1, 1)
    assert [one.engine for one in world.store.operations.attempts(world.the_operation(table).id)][-1] == "spark"


def test_an_engine_that_is_off_makes_its_table_wait_with_the_reason(world: World) -> None:
    table = planned(world, 3_000_000, {"engine": "spark-submit"})

    operation = world.the_operation(table)
    assert operation.status is Status.PENDING
    assert "spark-submit" in operation.reason
    assert not world.engine.works


def asked(world: World, engine: str) -> Table:
    """A plan that is asked for, on this engine; the table would choose by its size."""
    table = world.add_table(properties={"large-from": "2MB"})
    world.tables.plan(table.location, T1)
    world.factory.says[COMPACTION] = lambda _: Skip(reason="no")
    world.operations.add(table, OperationRequest(action=COMPACTION, instant=T1, engine=engine), by="ann")
    return table


def test_the_engine_that_a_request_asks_for_is_used_in_every_attempt(world: World) -> None:
    applications = with_applications(world)
    table = asked(world, "spark-submit")
    world.turn()
    applications.says(EngineState.FAILED, message="out of memory")
    world.turn()
    world.clock.pass_by(hours=1)
    world.turn()

    operation = world.the_operation(table)
    attempts = world.store.operations.attempts(operation.id)
    assert [one.engine for one in attempts] == ["spark-submit", "spark-submit"]
    assert "the request asked for spark-submit" in operation.reason
    assert not world.engine.works


def test_an_engine_that_was_switched_off_meanwhile_makes_the_operation_wait_with_the_reason(world: World) -> None:
    with_applications(world)
    table = asked(world, "spark-submit")
    world.plugins = replace(world.plugins, engines={"spark": world.plugins.engines["spark"]})
    world.restart()
    world.turn()

    operation = world.the_operation(table)
    assert (operation.status, operation.process.engine) == (Status.PENDING, "spark-submit")
    assert "spark-submit" in operation.reason


def test_what_runs_on_one_engine_alone_is_not_run_on_another_that_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_applications(world)
    table = asked(world, "spark")
    own = TableProcess(action=COMPACTION, job="pretend.run", instant=Instant(T1), engine="spark-submit")
    monkeypatch.setattr(world.factory, "admit", lambda *_: own)
    world.turn()

    operation = world.the_operation(table)
    assert (operation.status, operation.failure and operation.failure.reason) == (Status.FAILED, "engine-refused")
