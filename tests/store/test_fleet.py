# SPDX-License-Identifier: Apache-2.0
"""The fleet: the state of each table, lists and totals of tables, and what needs a person."""

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from sqlalchemy import and_, update

from lakehand.core.ports import TableFilter
from lakehand.domain.actions import Action
from lakehand.domain.fleet import FleetTables, FleetTotals, TableSort, TableState
from lakehand.domain.operations import OperationId, Status
from lakehand.domain.processes import Failure, Remedy
from lakehand.domain.tables import Format, Table, TableChanges
from lakehand.store import SqlStore
from lakehand.store.clock import to_millis
from lakehand.store.documents import failure_document
from lakehand.store.schema import operation, schedule, tbl
from tests.store.given import (
    CLUSTERING,
    COMPACTION,
    HOUR,
    MINUTE,
    NOON,
    a_finished_operation,
    a_pending_operation,
    a_running_operation,
    a_table,
)

EVERY = TableFilter()


def write_table(store: SqlStore, table: Table, **values: Any) -> None:
    """As the health of a table is stored."""
    store.database.write(lambda tx: tx.execute(update(tbl).where(tbl.c.id == table.id).values(values)))


def write_schedule(store: SqlStore, table: Table, action: Action = COMPACTION, **values: Any) -> None:
    same = and_(schedule.c.tbl_id == table.id, schedule.c.action == str(action))
    store.database.write(lambda tx: tx.execute(update(schedule).where(same).values(values)))


def pause(store: SqlStore, table: Table) -> None:
    store.tables.change(table.id, TableChanges(paused=True), now=NOON)


def lose(store: SqlStore, table: Table, why: str = "access denied", at: datetime = NOON) -> None:
    write_table(store, table, problem=why, problem_time=to_millis(at))


def fail(store: SqlStore, table: Table, message: str = "lock held. Ask again", at: datetime = NOON) -> OperationId:
    failed = a_finished_operation(store, table, at=at)
    failure = failure_document(Failure(reason="lock", message=message, remedy=Remedy.FATAL))
    one = operation.c.operation_id == failed.id
    store.database.write(lambda tx: tx.execute(update(operation).where(one).values(failure=failure)))
    write_schedule(store, table, failed_operation=failed.id)
    return failed.id


def evaluate(store: SqlStore, table: Table) -> None:
    write_schedule(store, table, last_look=to_millis(NOON), last_reason="12 files are small")


def work(store: SqlStore, table: Table) -> None:
    a_running_operation(store, table, "20260101000001000", of={"conflict_class": "other"})


def wait(store: SqlStore, table: Table) -> None:
    a_pending_operation(store, table, "20260101000002000")


# In the order in which they count.
REASONS: dict[TableState, Callable[[SqlStore, Table], Any]] = {
    TableState.PAUSED: pause,
    TableState.UNREADABLE: lose,
    TableState.FAILED: fail,
    TableState.WORKING: work,
    TableState.NEEDS_WORK: wait,
}


def states(store: SqlStore) -> dict[TableState, int]:
    return {state: count for state, count in store.fleet.summary(EVERY).states.items() if count}


def state_of(store: SqlStore, table: Table) -> TableState:
    [row] = [row for row in tables(store).items if row.table.id == table.id]
    counts = {state: tables(store, TableFilter(state=state)).total for state in TableState}
    assert counts == dict.fromkeys(TableState, 0) | {row.state: 1}
    assert states(store) == {row.state: 1}
    return row.state


def tables(
    store: SqlStore, filter: TableFilter = EVERY, sort: TableSort = TableSort.NAME, *, descending: bool = False,
    limit: int = 10, offset: int = 0,
) -> FleetTables:  # fmt: skip
    return store.fleet.tables(filter, sort=sort, descending=descending, limit=limit, offset=offset)


def names(found: FleetTables) -> list[str]:
    return [row.table.spec.table_name for row in found.items]


def test_a_table_is_new_until_it_was_evaluated(store: SqlStore) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLUSTERING}))
    assert state_of(store, table) is TableState.NEW

    evaluate(store, table)

    assert state_of(store, table) is TableState.HEALTHY


def test_a_table_whose_health_is_known_is_not_new(store: SqlStore) -> None:
    table = a_table(store)

    write_table(store, table, health_time=to_millis(NOON))

    assert state_of(store, table) is TableState.HEALTHY


@pytest.mark.parametrize("first", list(REASONS))
def test_the_first_of_several_states_counts(store: SqlStore, first: TableState) -> None:
    """Also of a table that was not evaluated yet."""
    table = a_table(store)
    for state in reversed(REASONS):
        REASONS[state](store, table)
        if state is first:
            break

    assert state_of(store, table) is first


def test_operations_that_are_over_leave_a_table_healthy(store: SqlStore) -> None:
    table = a_table(store)
    evaluate(store, table)
    a_finished_operation(store, table, status=Status.SUCCEEDED)

    assert state_of(store, table) is TableState.HEALTHY


def test_every_state_is_counted_and_totals_leave_removed_tables_out(store: SqlStore) -> None:
    orders, clicks, gone = (a_table(store, f"/w/{name}") for name in ("orders", "clicks", "gone"))
    for table in (orders, gone):
        write_table(store, table, files=40, small_files=30, bytes=2**40, small_bytes=7, health_time=1)
    store.tables.remove(gone.id, now=NOON)
    lose(store, clicks)

    summary = store.fleet.summary(EVERY)

    assert list(summary.states) == list(TableState)
    assert states(store) == {TableState.UNREADABLE: 1, TableState.HEALTHY: 1}
    assert summary.totals == FleetTotals(tables=2, files=40, small_files=30, bytes=2**40, small_bytes=7)
    assert store.fleet.summary(TableFilter(state=TableState.UNREADABLE)).totals == FleetTotals(tables=1)
    assert store.fleet.summary(TableFilter(owner="nobody")).totals == FleetTotals()


def test_filters_are_offered_what_registered_tables_have(store: SqlStore) -> None:
    a_table(store, "/w/a", owner="ann", queue="fast", catalog="lake")
    a_table(store, "/w/b", owner="bob", format=Format("delta"))
    gone = a_table(store, "/w/c", owner="eve")
    store.tables.remove(gone.id, now=NOON)

    choices = store.fleet.choices(limit=10)

    assert (choices.formats, choices.catalogs) == (["delta", "hudi"], ["", "lake"])
    assert (choices.owners, choices.queues) == (["ann", "bob"], ["default", "fast"])
    assert store.fleet.choices(limit=1).owners == ["ann"]


def test_a_row_has_the_numbers_and_the_reason_of_its_table(store: SqlStore) -> None:
    table = a_table(store)
    evaluate(store, table)
    write_table(store, table, files=4, small_files=3, bytes=2, small_bytes=1, health_time=to_millis(NOON))

    [row] = tables(store).items

    assert row.table == store.tables.get(table.id)
    assert (row.files, row.small_files, row.bytes, row.small_bytes, row.health_at) == (4, 3, 2, 1, NOON)
    assert (row.reason, row.problem, row.problem_since) == ("12 files are small", "", None)


def test_the_reason_is_that_of_the_problem_then_of_the_failure_then_of_the_last_evaluation(store: SqlStore) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLUSTERING}))
    write_schedule(store, table, CLUSTERING, last_look=9000, last_decision=2000, last_reason="recent")
    write_schedule(store, table, COMPACTION, last_look=8000, last_decision=3000, last_reason="old")
    assert reason_of(store) == ("recent", at_second(2))

    write_schedule(store, table, COMPACTION, failed_operation=7)
    assert reason_of(store) == ("old", at_second(3))

    lose(store, table, "access denied")
    [row] = tables(store).items
    assert (row.reason, row.problem, row.problem_since) == ("access denied", "access denied", NOON)
    assert row.decided_at == NOON


def test_a_table_that_was_not_decided_about_has_a_reason_without_a_time(store: SqlStore) -> None:
    a_table(store)

    assert reason_of(store) == ("", None)


def reason_of(store: SqlStore) -> tuple[str, datetime | None]:
    [row] = tables(store).items
    return row.reason, row.decided_at


def at_second(number: int) -> datetime:
    return datetime.fromtimestamp(number, tz=timezone.utc)


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("ORDERS", ["Orders", "orders_1"]),
        ("sales.ord", ["Orders", "orders_1"]),
        ("/W/EU", ["clicks"]),
        ("s_1", ["orders_1"]),
        ("%", ["100%"]),
        ("_", ["orders_1"]),
        ("nothing", []),
        ("\ud800", []),
    ],
)
def test_a_search_matches_a_part_of_the_name_or_the_location_in_any_case(
    store: SqlStore, search: str, expected: list[str]
) -> None:
    for location, name in (("/w/a", "Orders"), ("/w/b", "orders_1"), ("/w/eu/c", "clicks"), ("/w/d", "100%")):
        a_table(store, location, table_name=name)

    found = tables(store, TableFilter(search=search))

    assert sorted(names(found)) == expected
    assert found.total == len(expected)
    assert store.fleet.summary(TableFilter(search=search)).totals.tables == len(expected)
    listed = store.tables.list(TableFilter(search=search), limit=10, cursor=None).items
    assert sorted(table.spec.table_name for table in listed) == expected


def test_tables_are_filtered_by_what_they_are(store: SqlStore) -> None:
    a_table(store, "/w/a", owner="ann", queue="fast", catalog="lake", format=Format("delta"))
    a_table(store, "/w/b")

    for own in (
        TableFilter(owner="ann"), TableFilter(queue="fast"), TableFilter(catalog="lake"), TableFilter(format="delta")
    ):  # fmt: skip
        assert names(tables(store, own)) == ["a"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (TableSort.NAME, ["a", "b", "c"]),
        (TableSort.FILES, ["c", "b", "a"]),
        (TableSort.SMALL_FILES, ["c", "a", "b"]),
        (TableSort.BYTES, ["c", "b", "a"]),
        (TableSort.STATE, ["b", "c", "a"]),
        (TableSort.UPDATED, ["b", "a", "c"]),
    ],
)
def test_tables_are_sorted_both_ways_and_unknown_numbers_are_the_smallest(
    store: SqlStore, sort: TableSort, expected: list[str]
) -> None:
    a, b, _ = (a_table(store, f"/w/{name}") for name in "abc")
    write_table(store, a, files=9, small_files=0, bytes=9, health_time=1, update_time=to_millis(NOON) - 1)
    write_table(store, b, files=1, small_files=5, bytes=1, problem="gone", update_time=to_millis(NOON) - 2)

    assert names(tables(store, sort=sort)) == expected
    assert names(tables(store, sort=sort, descending=True)) == expected[::-1]


def test_pages_follow_each_other_and_know_the_total(store: SqlStore) -> None:
    for number in range(5):
        a_table(store, f"/w/t{number}")

    pages = [tables(store, sort=TableSort.FILES, limit=2, offset=offset) for offset in (0, 2, 4, 6)]

    assert [name for page in pages for name in names(page)] == [f"t{number}" for number in range(5)]
    assert {page.total for page in pages} == {5}


def test_a_person_is_needed_where_an_action_failed_for_good_or_a_table_cannot_be_read(store: SqlStore) -> None:
    orders, clicks, old, paused = (a_table(store, f"/w/{name}") for name in ("orders", "clicks", "old", "paused"))
    failed = fail(store, orders, "the lock is held. Ask its owner\n  at java", at=NOON + HOUR)
    lose(store, clicks, "access denied to s3://raw. Ask", at=NOON + 2 * HOUR)
    lose(store, old, "no such folder", at=NOON)
    fail(store, paused)
    pause(store, paused)

    problems = store.fleet.problems(limit=10)

    assert [one.table.id for one in problems.items] == [clicks.id, orders.id, old.id]
    unreadable, failure, _ = problems.items
    assert (failure.state, failure.action, failure.operation) == (TableState.FAILED, COMPACTION, failed)
    assert (failure.reason, failure.since) == ("the lock is held", NOON + HOUR)
    assert (unreadable.state, unreadable.action, unreadable.operation) == (TableState.UNREADABLE, None, None)
    assert (unreadable.reason, unreadable.since) == ("access denied to s3://raw", NOON + 2 * HOUR)
    assert problems.total == 3


def test_the_newest_problems_are_shown_and_all_are_counted(store: SqlStore) -> None:
    for number in range(4):
        lose(store, a_table(store, f"/w/t{number}"), at=NOON + number * MINUTE)

    problems = store.fleet.problems(limit=2)

    assert [one.table.spec.table_name for one in problems.items] == ["t3", "t2"]
    assert problems.total == 4


def test_a_failure_is_forgotten_with_the_history_of_its_operation(store: SqlStore) -> None:
    fail(store, a_table(store))
    assert store.fleet.problems(limit=10).total == 1

    store.operations.remove_finished(before=NOON + HOUR, limit=10)

    assert store.fleet.problems(limit=10).total == 0


def test_an_unreadable_table_is_one_problem_whatever_failed_before(store: SqlStore) -> None:
    table = a_table(store)
    fail(store, table)
    lose(store, table)

    problems = store.fleet.problems(limit=10)

    assert [one.state for one in problems.items] == [TableState.UNREADABLE]
    assert problems.total == 1


def test_running_operations_are_counted_per_queue(store: SqlStore) -> None:
    for number in range(3):
        a_running_operation(store, a_table(store, f"/w/t{number}"), queue="fast" if number else "slow")
    a_pending_operation(store, a_table(store, "/w/waits"), queue="slow")

    assert store.fleet.running() == {"fast": 2, "slow": 1}
