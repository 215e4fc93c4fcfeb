# SPDX-License-Identifier: Apache-2.0
"""The fleet over time: totals are recorded once per time, for the fleet and for its largest owners."""

from datetime import timedelta

from sqlalchemy import func, select, update

from lakehand.domain.fleet import FleetTotals
from lakehand.store import SqlStore
from lakehand.store.schema import fleet_point, tbl
from tests.store.given import HOUR, MINUTE, NOON, a_table

DAY = timedelta(days=1)
STEP = 5 * MINUTE


def given_owner(store: SqlStore, owner: str, small_files: int, tables: int = 1) -> None:
    values = {"files": small_files + 1, "small_files": small_files, "bytes": 10, "small_bytes": 5}
    for number in range(tables):
        a_table(store, f"/w/{owner}-{number}", owner=owner)
    store.database.write(lambda tx: tx.execute(update(tbl).where(tbl.c.owner == owner).values(values)))


def point_count(store: SqlStore) -> int:
    query = select(func.count()).select_from(fleet_point)
    return int(store.database.read(lambda tx: tx.execute(query).scalar_one()))


def test_the_fleet_and_its_largest_owners_are_recorded(store: SqlStore) -> None:
    given_owner(store, "ann", 5, tables=2)
    given_owner(store, "bob", 1)
    given_owner(store, "eve", 100)
    gone = a_table(store, "/w/gone", owner="zoe")
    store.tables.remove(gone.id, now=NOON)

    assert store.fleet.record(at=NOON, owners=2)

    trend = store.fleet.trend(since=NOON, step=STEP, owners=3)
    [total] = trend.total
    assert (total.at, total.totals) == (
        NOON,
        FleetTotals(tables=4, files=115, small_files=111, bytes=40, small_bytes=20),
    )
    assert list(trend.owners) == ["eve", "ann"]
    assert trend.owners["ann"][0].totals == FleetTotals(tables=2, files=12, small_files=10, bytes=20, small_bytes=10)


def test_a_point_is_recorded_once(store: SqlStore) -> None:
    given_owner(store, "ann", 5)
    assert store.fleet.record(at=NOON, owners=9)
    given_owner(store, "bob", 7)

    assert not store.fleet.record(at=NOON, owners=9)

    assert [point.totals.tables for point in store.fleet.trend(since=NOON, step=STEP, owners=3).total] == [1]
    assert store.fleet.record(at=NOON + STEP, owners=9)


def test_a_fleet_without_tables_is_recorded_too(store: SqlStore) -> None:
    assert store.fleet.record(at=NOON, owners=9)

    assert store.fleet.trend(since=NOON, step=STEP, owners=3).total[0].totals == FleetTotals()


def test_an_owner_without_a_name_is_part_of_the_fleet_only(store: SqlStore) -> None:
    given_owner(store, "", 5)
    given_owner(store, "ann", 2)

    store.fleet.record(at=NOON, owners=9)

    trend = store.fleet.trend(since=NOON, step=STEP, owners=3)
    assert [point.totals.small_files for point in trend.total] == [7]
    assert list(trend.owners) == ["ann"]


def test_a_trend_has_the_first_point_of_each_step_and_the_newest(store: SqlStore) -> None:
    given_owner(store, "ann", 5)
    times = [NOON + STEP, NOON + 4 * STEP, NOON + HOUR, NOON + HOUR + STEP, NOON + HOUR + 2 * STEP]
    for time in times:
        store.fleet.record(at=time, owners=1)

    trend = store.fleet.trend(since=NOON, step=HOUR, owners=1)

    assert [point.at for point in trend.total] == [NOON + STEP, NOON + HOUR, NOON + HOUR + 2 * STEP]
    assert [point.at for point in trend.owners["ann"]] == [point.at for point in trend.total]
    every = store.fleet.trend(since=NOON + HOUR, step=STEP, owners=0)
    assert [point.at for point in every.total] == times[2:]
    assert every.owners == {}


def test_points_are_removed_with_those_of_their_owners(store: SqlStore) -> None:
    given_owner(store, "ann", 5)
    for number in range(3):
        store.fleet.record(at=NOON + number * STEP, owners=1)

    store.fleet.remove_points([NOON, NOON + STEP])
    store.fleet.remove_points([])

    assert store.fleet.point_times() == [NOON + 2 * STEP]
    assert point_count(store) == 2
