# SPDX-License-Identifier: Apache-2.0
"""One folder belongs to one table: by which way a second one may come in, it is refused, or never worked on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakehand.domain.errors import LocationTaken
from lakehand.domain.locations import Boundary
from lakehand.domain.notifications import Notification
from lakehand.domain.operations import Status
from lakehand.domain.tables import Table, TableChanges, TableSpec
from lakehand.spi import EngineState
from tests.core.world import ANN, HUDI, World
from tests.domain.words import COMPACTION

T1 = "20261115110000000"
LINK = "/lake/hr/mine"
THEIRS = "/lake/sales/orders"


@pytest.fixture
def links() -> dict[str, str]:
    """Where each link leads; a test may change it."""
    return {}


@pytest.fixture
def world(store: Any, links: dict[str, str]) -> World:
    """A world whose paths may be links."""

    def real(location: str) -> str:
        for link, target in links.items():
            if location == link or location.startswith(f"{link}/"):
                return target + location.removeprefix(link)
        return location

    def draw(location: str, extra: Sequence[str]) -> Boundary:
        return Boundary(location=location, real=real(location), warehouses=("/lake",), extra=tuple(extra))

    made = World(store, real_path=real)
    vars(made)["draw_boundary"] = draw
    made.restart()
    return made


def a_table(world: World, location: str, **values: Any) -> Table:
    spec = TableSpec(location=location, format=HUDI, action_types=frozenset({COMPACTION}), **values)
    return world.table_service.register(spec)[0]


def planned(world: World, location: str, **values: Any) -> Table:
    table = a_table(world, location, **values)
    world.tables.plan(location, T1)
    return table


def notify(world: World, location: str, **values: Any) -> Any:
    [receipt] = world.intake.record(
        [Notification(source="wire", location=location, action=COMPACTION, instants=(T1,), **values)]
    )
    return receipt


@pytest.mark.parametrize(
    ("known", "new"),
    [
        pytest.param(THEIRS, LINK, id="the same folder by a link"),
        pytest.param(THEIRS, f"{THEIRS}/_delta_log", id="a folder in it"),
        pytest.param(THEIRS, f"{THEIRS}/.hoodie/metadata", id="a folder deep in it"),
        pytest.param(THEIRS, f"{LINK}/day=1", id="a folder in it by a link"),
        pytest.param(THEIRS, "/lake/sales", id="a folder above it"),
        pytest.param(LINK, THEIRS, id="the folder of a link"),
    ],
)
def test_a_location_that_is_or_contains_or_lies_in_a_registered_table_is_refused(
    world: World, links: dict[str, str], known: str, new: str
) -> None:
    links[LINK] = THEIRS
    first = a_table(world, known)
    with pytest.raises(LocationTaken) as refused:
        a_table(world, new)
    assert str(refused.value).startswith(new)
    assert f"table {first.id} (" in str(refused.value)
    assert f"lakehand tables remove {first.id}" in str(refused.value)


@pytest.mark.parametrize("other", ["/lake/sales/orders2", "/lake/sales/order", "/lake/sales/orders%2", "/lake/hr/mine"])
def test_neighbours_and_removed_tables_are_no_overlap(world: World, other: str) -> None:
    first = a_table(world, THEIRS)
    assert a_table(world, other).id != first.id
    world.table_service.remove(ANN, first.id)
    assert a_table(world, f"{THEIRS}/inner").id > first.id


def test_the_same_location_again_is_the_same_table(world: World, links: dict[str, str]) -> None:
    links[LINK] = THEIRS
    assert a_table(world, LINK).id == a_table(world, LINK).id


@pytest.mark.parametrize("values", [{}, {"register": frozenset({COMPACTION})}], ids=["the wire", "a commit event"])
def test_a_notification_registers_no_table_in_or_above_another(world: World, values: Any) -> None:
    a_table(world, THEIRS)
    assert not notify(world, f"{THEIRS}/.hoodie/metadata", **values).stored
    assert not notify(world, "/lake/sales", **values).stored
    assert notify(world, "/lake/sales/other", **values).stored


def test_a_link_that_a_writer_registered_is_not_read_and_not_worked_on(world: World, links: dict[str, str]) -> None:
    theirs = planned(world, THEIRS)
    world.store.tables.change(theirs.id, TableChanges(paused=True), now=world.clock.now())
    links[LINK] = THEIRS
    world.tables.plan(LINK, T1)
    mine = notify(world, LINK).table
    world.turn()
    assert not world.engine.works
    found = world.store.tables.get(mine)
    assert f"table {theirs.id} " in found.problem
    assert f"table {theirs.id} " in world.the_operation(found).reason


def test_a_link_that_is_put_in_the_place_of_an_older_table_is_not_worked_on_and_keeps_no_other(
    world: World, links: dict[str, str]
) -> None:
    mine = planned(world, LINK)
    theirs = planned(world, THEIRS)
    links[LINK] = THEIRS
    world.turn()
    [work] = world.engine.works.values()
    assert work.parameters["boundary"]["location"] == THEIRS  # type: ignore[call-overload, index]
    assert world.the_operation(theirs).status is not Status.PENDING
    assert world.store.tables.get(mine.id).problem


def test_a_warehouse_that_is_a_link_makes_no_table_one(world: World, links: dict[str, str]) -> None:
    links["/lake"] = "/mnt/lake"
    mine, theirs = planned(world, LINK), planned(world, THEIRS)
    links.clear()
    links.update({LINK: f"/mnt{THEIRS}", "/lake": "/mnt/lake"})
    guard = replace(world.dispatcher.runtimes, warehouses=("/lake",)).overlaps
    guard.check(theirs, f"/mnt{THEIRS}")
    with pytest.raises(LocationTaken, match=f"table {theirs.id} "):
        guard.check(mine, f"/mnt{THEIRS}")


def test_of_two_links_to_one_folder_the_older_is_served_after_the_operation_of_the_other(
    world: World, links: dict[str, str]
) -> None:
    first, second = a_table(world, "/lake/a"), planned(world, "/lake/b")
    links["/lake/b"] = THEIRS
    world.turn()
    [work] = world.engine.works.values()
    links["/lake/a"] = THEIRS
    world.tables.plan(first.location, T1)
    world.clock.pass_by(minutes=11)
    world.turn()
    assert list(world.engine.works.values()) == [work]
    waits = world.the_operation(first).reason
    assert f"operation {world.the_operation(second).id} of table {second.id} " in waits
    world.tables.complete(second.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.monitor.run_once()
    world.clock.pass_by(minutes=11)
    world.turn()
    assert world.the_operation(first).status is Status.SUBMITTED
    assert f"table {first.id} " in world.store.tables.get(second.id).problem


def test_tables_of_a_nested_pair_that_is_registered_already_are_served_one_at_a_time(world: World) -> None:
    now = world.clock.now()
    outer, inner = (
        world.store.tables.add(
            TableSpec(location=at, format=HUDI, table_name=at, action_types=frozenset({COMPACTION})), now=now
        )[0]
        for at in (THEIRS, f"{THEIRS}/inner")
    )
    for table in (outer, inner):
        world.tables.plan(table.location, T1)
    world.turn()
    [work] = world.engine.works.values()
    assert work.parameters["boundary"]["location"] == outer.location  # type: ignore[call-overload, index]
    assert f"table {outer.id} " in world.the_operation(inner).reason
