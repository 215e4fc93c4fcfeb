# SPDX-License-Identifier: Apache-2.0
"""Every operation gets its boundary from the dispatcher, and a job that met the boundary is not tried again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Boundary
from lakehand.domain.operations import Operation, Status
from lakehand.domain.tables import Table, TableChanges
from lakehand.spi import EngineState, TableProcess, TableRuntime
from tests.core.world import World
from tests.kit.sentences import Sentences

T1 = "20261115110000000"
OUTSIDE_TABLE = "lakehand.jobs.boundary.OutsideTable"


def test_the_boundary_is_given_to_the_engine_and_stored_with_the_operation(world: World) -> None:
    table = world.add_table(properties={"extra-locations": "/lake/data, /lake/more"})
    world.tables.plan(table.location, T1)
    world.turn()
    [work] = world.engine.works.values()
    assert work.parameters["boundary"] == {
        "location": table.location, "real": table.location, "warehouses": ["/lake"],
        "extra": ["/lake/data", "/lake/more"], "folder": "",
    }  # fmt: skip
    assert world.the_operation(table).process.parameters["boundary"] == work.parameters["boundary"]


def test_no_factory_can_say_another_boundary(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    admit = world.factory.admit

    def greedy(runtime: TableRuntime, operation: Operation) -> object:
        answer = admit(runtime, operation)
        assert isinstance(answer, TableProcess)
        return replace(answer, parameters={"boundary": {"real": "/", "warehouses": ["/"]}})

    vars(world.factory)["admit"] = greedy
    world.turn()
    [work] = world.engine.works.values()
    assert work.parameters["boundary"] == world.draw_boundary(table.location, ()).as_parameter()


def test_work_that_is_given_again_keeps_the_boundary_it_was_admitted_with(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.engine.is_deaf = True
    world.turn()
    admitted = world.the_operation(table).process.parameters["boundary"]
    world.engine.is_deaf = False
    world.store.tables.change(
        table.id, TableChanges(properties={"extra-locations": "/lake/data"}), now=world.clock.now()
    )
    world.restart()
    world.rescuer.adopt()
    world.turn()  # it is recovered
    world.turn()
    [work] = world.engine.works.values()
    assert work.parameters["boundary"] == admitted


def test_a_place_that_is_refused_at_the_last_moment_is_not_given_to_an_engine(
    world: World, sentences: Sentences
) -> None:
    def refuse(location: str, _extra: Sequence[str]) -> Boundary:
        raise LocationRefused(f"{location} leads to /secret")

    table = world.add_table()
    world.tables.plan(table.location, T1)
    vars(world)["draw_boundary"] = refuse
    world.restart()
    world.turn()
    operation = world.the_operation(table)
    assert operation.status is Status.PENDING
    sentences.check("not admitted", operation.reason, why=f"{table.location} leads to /secret")
    assert not world.engine.works


def test_extra_locations_outside_of_the_warehouses_are_refused_when_they_are_named(world: World) -> None:
    with pytest.raises(LocationRefused, match="'/etc'"):
        world.add_table("bad", properties={"extra-locations": "/lake/data,/etc"})
    table = world.add_table()
    with pytest.raises(LocationRefused, match="'/etc'"):
        world.change(table, properties={"extra-locations": "/etc"})
    assert not world.store.tables.get(table.id).spec.properties


def test_a_job_that_met_its_boundary_has_failed_for_good_and_says_what_it_met(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.engine.says(EngineState.FAILED, error_class=OUTSIDE_TABLE, message="/lake/trips/more is a link to /secret")
    world.monitor.run_once()
    failed = world.the_operation(table)
    assert failed.status is Status.FAILED
    assert failed.failure is not None
    assert failed.failure.reason == "outside-table"
    assert "/lake/trips/more is a link to /secret" in failed.reason


def given_work_whose_place_is_refused_by_now(world: World) -> Table:
    def refuse(location: str) -> None:
        raise LocationRefused(f"{location} leads to /secret, which is outside of the warehouses")

    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    vars(world)["check_path"] = refuse
    return table


def test_a_job_that_met_its_boundary_has_failed_although_its_place_is_refused_by_now(world: World) -> None:
    table = given_work_whose_place_is_refused_by_now(world)
    world.engine.says(EngineState.FAILED, error_class=OUTSIDE_TABLE, message="/lake/trips leads to /secret now")
    world.turn()
    world.turn()
    assert world.the_operation(table).status is Status.FAILED
    assert "/lake/trips leads to /secret now" in world.the_operation(table).reason


def test_what_became_of_a_lost_job_is_unknown_while_its_place_is_refused(world: World) -> None:
    table = given_work_whose_place_is_refused_by_now(world)
    world.engine.says(EngineState.LOST)
    world.turn()
    world.turn()
    assert world.the_operation(table).status is Status.UNKNOWN
