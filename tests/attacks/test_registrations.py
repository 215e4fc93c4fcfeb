# SPDX-License-Identifier: Apache-2.0
"""A second registration of somebody else's table, with real links: by whichever way it comes in, nothing is done."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehand.api.operations import OperationRequest
from lakehand.api.tables import NewTable
from lakehand.app import wiring
from lakehand.app.settings import load
from lakehand.app.wiring import Service
from lakehand.domain.access import Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.errors import LakehandError, LocationTaken
from lakehand.domain.notifications import CommitEvent, Notification
from lakehand.domain.tables import Format, TableId, TableSpec
from tests.attacks.scene import nothing_changes

DELTA = Format("delta")
OPTIMIZE = Action("optimize")
HR = Caller(name="hr", role=Role.OPERATOR, owner="hr")
SALES = Caller(name="sales", role=Role.OPERATOR, owner="sales")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The table of the owner sales, and a folder of the owner hr."""
    from tests import small_tables

    small_tables.delta(tmp_path / "lake" / "sales" / "orders", commits=2)
    (tmp_path / "lake" / "hr").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def service(lake: Path, tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "home").mkdir(mode=0o700)
    settings = load({"home": tmp_path / "home", "warehouses": [str(lake)]})
    built = wiring.build(settings, wiring.migrated(settings))
    yield built
    built.stop()
    built.store.close()


@pytest.fixture
def orders(service: Service, lake: Path) -> TableId:
    """Registered by sales, and paused."""
    spec = TableSpec(location=str(lake / "sales" / "orders"), format=DELTA, owner="sales")
    table = service.tables.register(spec)[0].id
    service.tables.pause(SALES, table)
    return table


def by_request(service: Service, location: str) -> Any:
    """REST, gRPC, the command, the dashboard and catalogs end here."""
    return service.tables.add(HR, NewTable(location=location, format=DELTA, owner="hr"))


def by_writer(service: Service, location: str) -> Any:
    wanted = Notification(source="wire", location=location, action=OPTIMIZE, register=frozenset({OPTIMIZE}))
    return service.intake.record([replace(wanted, format=DELTA)])[0].stored


def by_event(service: Service, location: str) -> Any:
    event = CommitEvent(location=location, format=DELTA, register=frozenset({OPTIMIZE}))
    return service.commits.record([event])[0].table


PLACES: dict[str, Callable[[Path], Path]] = {
    "a link": lambda lake: linked(lake / "hr" / "mine", lake / "sales" / "orders"),
    "a folder behind a link": lambda lake: linked(lake / "hr" / "all", lake / "sales") / "orders",
    "the log": lambda lake: lake / "sales" / "orders" / "_delta_log",
    "a folder below": lambda lake: lake / "sales" / "orders" / "day=1",
    "the folder above": lambda lake: lake / "sales",
    "the warehouse": lambda lake: lake,
}


def linked(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    return link


@pytest.mark.parametrize("place", PLACES)
def test_somebody_elses_table_is_not_registered_again(
    service: Service, orders: TableId, lake: Path, place: str
) -> None:
    location = str(PLACES[place](lake))
    with pytest.raises(LocationTaken, match=f"table {orders} ") as refused:
        by_request(service, location)
    assert f"lakehand tables remove {orders}" in str(refused.value)


@pytest.mark.parametrize("way", [by_writer, by_event])
@pytest.mark.parametrize("place", ["a link", "a folder behind a link", "the folder above"])
def test_nothing_is_done_to_somebody_elses_table_whichever_way_it_was_registered(
    service: Service, orders: TableId, lake: Path, place: str, way: Callable[[Service, str], Any]
) -> None:
    location = str(PLACES[place](lake))
    with nothing_changes(lake):
        try:
            way(service, location)
            mine = service.tables.find(location)
            service.operations.add(mine, OperationRequest(action=OPTIMIZE), by="api")
        except LakehandError:
            return
        for _ in range(2):
            service.coordinator.run_once()
            service.dispatcher.run_once()
    waiting = service.operations.of_table(mine.id, recent=10)
    assert [one.handle for one in waiting] == [None] * len(waiting)
    assert all(f"table {orders} " in one.reason for one in waiting)
    assert f"table {orders} " in service.tables.get(mine.id).problem
