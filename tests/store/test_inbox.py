# SPDX-License-Identifier: Apache-2.0
"""The inbox: notifications become rows, once, however often and in whatever company they come."""

from datetime import timedelta

import pytest
from sqlalchemy import event as sql_event

from lakehand.core.ports import OperationFilter, Store
from lakehand.domain.errors import Moved
from lakehand.domain.events import Event
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import Operation, Status
from lakehand.domain.schedules import EvaluationResult
from lakehand.domain.tables import TableChanges
from lakehand.store import SqlStore, open_store
from tests.store.given import (
    CLEAN,
    COMPACTION,
    HOUR,
    MINUTE,
    NOON,
    ONE,
    PLAN,
    SECOND,
    a_finished_operation,
    a_table,
    inbox_row,
    process,
    spec,
    table_count,
)

OTHER_PLAN = "20260101000000001"


def operations(store: Store) -> list[Operation]:
    return list(store.operations.list(OperationFilter(), limit=500, cursor=None).items)


def test_an_unknown_table_is_registered_and_its_plan_is_pending(store: Store) -> None:
    wanted = spec(priority=3, queue="fast", owner="ann")

    [table_id] = store.inbox.store([inbox_row(wanted, PLAN)], [], now=NOON)

    table, [operation] = store.tables.get(table_id), operations(store)
    assert (table.spec, table.notified_at, table.created_at) == (wanted, NOON, NOON)
    assert [s.due for s in store.schedules.of_table(table_id)] == [NOON]
    assert (operation.table, operation.instant, operation.process.instant) == (table_id, PLAN, PLAN)
    assert (operation.priority, operation.queue, operation.owner, operation.origin) == (3, "fast", "ann", "wire")
    assert (operation.status, operation.due_at, operation.not_before) == (Status.PENDING, NOON, NOON)


def test_operations_take_what_the_registered_table_says(store: Store) -> None:
    table = a_table(store, priority=1, queue="slow", owner="bob")

    ids = store.inbox.store([inbox_row(spec(priority=9, queue="fast", owner="eve"), PLAN)], [], now=NOON + HOUR)

    [operation] = operations(store)
    assert ids == [table.id]
    assert (operation.priority, operation.queue, operation.owner) == (1, "slow", "bob")
    assert store.tables.get(table.id).spec == table.spec
    assert store.tables.get(table.id).notified_at == NOON + HOUR


def test_the_same_notification_a_thousand_times_is_one_operation(store: Store) -> None:
    batch = [inbox_row(spec(), PLAN)] * 50

    ids = [one for _ in range(20) for one in store.inbox.store(batch, [], now=NOON)]

    assert len(set(ids)) == 1
    assert len(operations(store)) == 1
    assert table_count(store) == 1


def test_a_batch_may_name_a_table_in_many_ways(store: Store) -> None:
    batch = [
        inbox_row(spec("s3://b/t"), PLAN, OTHER_PLAN),
        inbox_row(spec("s3a://b/t"), OTHER_PLAN, "3"),
        inbox_row(spec("/w/u", table_name="u"), PLAN),
        inbox_row(spec("s3://b/t"), process=None),
    ]

    ids = store.inbox.store(batch, [], now=NOON)

    assert ids[0] == ids[1] == ids[3] != ids[2]
    assert sorted((o.table, o.instant) for o in operations(store)) == sorted(
        [(ids[0], PLAN), (ids[0], OTHER_PLAN), (ids[0], "3"), (ids[2], PLAN)]
    )


def test_what_is_there_stays_and_what_is_new_is_added(store: Store) -> None:
    table = a_table(store)
    done = a_finished_operation(store, table, PLAN, status=Status.SUCCEEDED)

    store.inbox.store([inbox_row(spec(), PLAN, OTHER_PLAN)], [], now=NOON + HOUR)

    newer, older = operations(store)
    assert older == done
    assert (newer.instant, newer.status) == (OTHER_PLAN, Status.PENDING)


def test_the_parameters_of_a_request_are_kept(store: Store) -> None:
    wanted = process(CLEAN, parameters={"resource": "spark:4g,4g", "options": {"k": "1"}}, reason="the writer asked")

    store.inbox.store([inbox_row(spec(), PLAN, process=wanted)], [], now=NOON)

    [operation] = operations(store)
    assert (operation.process.action, operation.process.parameters) == (CLEAN, wanted.parameters)
    assert operation.process.reason == "the writer asked"


def test_a_notification_makes_its_table_due(store: Store) -> None:
    woken, left = a_table(store, "/w/woken"), a_table(store, "/w/left")
    due = store.schedules.claim_due(holder=ONE, now=NOON, time_to_live=MINUTE, limit=9).schedules
    store.schedules.finish([EvaluationResult(schedule=s, next_due=NOON + 9 * HOUR, reason="") for s in due], now=NOON)

    store.inbox.store([inbox_row(woken.spec), inbox_row(left.spec, wake=False)], [], now=NOON + HOUR)

    assert [(s.due, s.wakes) for s in store.schedules.of_table(woken.id)] == [(NOON + HOUR, 1)]
    assert [(s.due, s.wakes) for s in store.schedules.of_table(left.id)] == [(NOON + 9 * HOUR, 0)]
    assert store.tables.get(left.id).notified_at == NOON + HOUR


def test_a_writer_that_notifies_very_often_is_noted_once_a_second(store: Store) -> None:
    for milliseconds in (0, 400, 999):
        [table] = store.inbox.store([inbox_row(spec())], [], now=NOON + timedelta(milliseconds=milliseconds))
        assert store.tables.get(table).notified_at == NOON

    store.inbox.store([inbox_row(spec())], [], now=NOON + SECOND)
    assert store.tables.get(table).notified_at == NOON + SECOND


def test_a_removed_table_whose_writer_notifies_is_back(store: Store) -> None:
    table = a_table(store, owner="ann")
    store.tables.change(table.id, TableChanges(paused=True), now=NOON)
    store.tables.remove(table.id, now=NOON)

    ids = store.inbox.store([inbox_row(spec(owner="bob"), PLAN)], [], now=NOON + HOUR)

    back = store.tables.get(table.id)
    assert ids == [table.id]
    assert (back.removed, back.paused, back.spec.owner) == (False, False, "bob")
    assert [s.action for s in store.schedules.of_table(table.id)] == [COMPACTION]
    assert store.tables.by_name("sales", "orders") == [back]
    assert [o.owner for o in operations(store)] == ["bob"]


def test_what_was_decided_about_a_table_that_is_gone_is_decided_anew(store: Store) -> None:
    table, other = a_table(store), a_table(store, "/w/other")
    store.tables.remove(table.id, now=NOON)
    for gone in (table.spec, spec("/w/never")):
        batch = [inbox_row(other.spec, PLAN, is_known=True), inbox_row(gone, PLAN, is_known=True)]
        with pytest.raises(Moved):
            store.inbox.store(batch, [], now=NOON)

    assert store.tables.get(table.id).removed
    assert operations(store) == []


def test_a_table_that_is_known_and_there_is_no_trouble(store: Store) -> None:
    table = a_table(store)

    assert store.inbox.store([inbox_row(table.spec, PLAN, is_known=True)], [], now=NOON) == [table.id]


def test_a_taken_name_fails_no_batch_and_is_explained(store: Store) -> None:
    first = a_table(store, "/w/first", table_name="orders")
    batch = [inbox_row(spec("/w/a", table_name="a"), PLAN), inbox_row(spec("/w/second"), PLAN)]

    a, second = store.inbox.store(batch, [], now=NOON)
    store.inbox.store(batch, [], now=NOON)

    [stored] = store.events.list(kind="table.name-taken").items
    assert stored.event.table == second
    assert "/w/second" in stored.event.message
    assert {o.table for o in operations(store)} == {a, second}
    assert store.tables.by_name("sales", "orders") == [first]
    assert store.tables.get(second).name == "sales.orders"


def test_a_name_taken_within_the_batch_is_no_trouble_either(store: Store) -> None:
    one, two = store.inbox.store([inbox_row(spec("/w/1"), PLAN), inbox_row(spec("/w/2"), PLAN)], [], now=NOON)

    [owner] = store.tables.by_name("sales", "orders")
    assert owner.id in (one, two)
    assert len(operations(store)) == 2


def test_a_freed_name_passes_to_the_table_that_waited_for_it(store: Store) -> None:
    first = a_table(store, "/w/first", table_name="orders")
    [second] = store.inbox.store([inbox_row(spec("/w/second"))], [], now=NOON)

    store.tables.remove(first.id, now=NOON)

    assert [t.id for t in store.tables.by_name("sales", "orders")] == [second]


def test_a_removed_table_comes_back_although_its_name_is_taken(store: Store) -> None:
    old = a_table(store, "/w/old", table_name="orders")
    store.tables.remove(old.id, now=NOON)
    new = a_table(store, "/w/new", table_name="orders")

    assert store.inbox.store([inbox_row(spec("/w/old"))], [], now=NOON) == [old.id]

    assert store.tables.by_name("sales", "orders") == [new]
    assert [e.event.table for e in store.events.list(kind="table.name-taken").items] == [old.id]


def test_notes_are_stored_with_their_tables_and_repeats_are_counted(store: Store) -> None:
    hint = Event(kind="intake.hint", message="asked for clean", fingerprint="hint-1")
    refused = Event(kind="intake.refused", message="outside: \x00\ud800", fingerprint="refused-1")

    for n in range(3):
        [table_id] = store.inbox.store([inbox_row(spec(), note=hint)], [refused, refused], now=NOON + n * HOUR)

    about_table, about_none = (
        store.events.list(kind="intake.hint").items,
        store.events.list(kind="intake.refused").items,
    )
    assert [(e.event.table, e.times, e.first_at, e.at) for e in about_table] == [(table_id, 3, NOON, NOON + 2 * HOUR)]
    assert [(e.event.table, e.times) for e in about_none] == [(None, 6)]


def test_notes_come_without_arrivals_and_nothing_is_nothing(store: Store) -> None:
    assert store.inbox.store([], [], now=NOON) == []
    assert store.inbox.store([], [Event(kind="intake.refused", message="no")], now=NOON) == []
    assert [e.event.message for e in store.events.list().items] == ["no"]


def test_a_large_batch_is_stored_whole(store: Store) -> None:
    batch = [inbox_row(spec(f"/w/t{n}", table_name=f"t{n}"), *(str(i) for i in range(3))) for n in range(600)]

    ids = store.inbox.store(batch, [], now=NOON)

    assert len(set(ids)) == table_count(store) == 600
    assert store.operations.queue_depth(now=NOON) == {"default": (1800, NOON)}


@pytest.mark.parametrize("size", [1, 16, 60])
def test_a_batch_of_known_tables_costs_four_statements(store: SqlStore, size: int) -> None:
    batch = [inbox_row(spec(f"/w/t{n}", table_name=f"t{n}"), PLAN) for n in range(size)]
    for _ in range(2):  # the first repeat is compared with what is stored
        store.inbox.store(batch, [], now=NOON)
    seen: list[str] = []
    sql_event.listen(store.database.engine, "before_cursor_execute", lambda _c, _u, sql, *_: seen.append(sql))

    store.inbox.store(batch, [], now=NOON + HOUR)

    assert len([sql for sql in seen if not sql.startswith("BEGIN")]) == 4


def test_a_table_that_is_changed_while_a_plan_is_stored_gives_it_its_new_values(
    store: SqlStore, migrated_url: str
) -> None:
    if store.database.dialect == "sqlite":
        pytest.skip("SQLite has one writer: the change comes before or after")
    table, other = a_table(store, queue="slow"), open_store(migrated_url)

    def change(_c: object, _u: object, sql: str, *_: object) -> None:
        if sql.startswith("INSERT INTO operation"):
            other.tables.change(table.id, TableChanges(queue="vip", owner="carol", priority=50), now=NOON)

    sql_event.listen(store.database.engine, "before_cursor_execute", change)
    try:
        store.inbox.store([inbox_row(spec(), PLAN)], [], now=NOON)
    finally:
        other.close()

    [operation] = operations(store)
    assert (operation.queue, operation.owner, operation.priority) == ("vip", "carol", 50)


def asked_with(resource: str, **values: object) -> InboxRow:
    wanted = process(parameters={"resource": resource, "options": {}})
    return inbox_row(spec(), PLAN, process=wanted, **values)


def test_a_repeat_that_asks_for_something_else_changes_what_waits(store: Store) -> None:
    store.inbox.store([asked_with("4g:4g")], [], now=NOON)
    store.inbox.store([asked_with("4g:4g")], [], now=NOON)

    store.inbox.store([asked_with("8g:4g", engine="spark-submit", queue="vip")], [], now=NOON + HOUR)

    [operation] = operations(store)
    assert operation.process.parameters == {"resource": "8g:4g", "options": {}}
    assert (operation.wanted_engine, operation.queue, operation.updated_at) == ("spark-submit", "default", NOON + HOUR)


@pytest.mark.parametrize("state", ["claimed", "running"])
def test_a_repeat_does_not_change_what_an_engine_has_or_is_given(store: Store, state: str) -> None:
    store.inbox.store([asked_with("4g:4g")], [], now=NOON)
    claimed = store.operations.claim(operations(store)[0], holder=ONE, now=NOON, time_to_live=HOUR)
    assert claimed is not None
    if state == "running":
        claimed = store.operations.save(claimed.moved_to(Status.SUBMITTED, at=NOON, reason="sent"), now=NOON)

    store.inbox.store([asked_with("8g:4g")], [], now=NOON + MINUTE)

    assert operations(store) == [claimed]
