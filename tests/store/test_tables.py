# SPDX-License-Identifier: Apache-2.0
"""Tables: found by place, by name and by number; removed without losing their history."""

from datetime import timedelta

import pytest

from lakehand.core.ports import Store, TableFilter
from lakehand.domain.errors import Conflict, Invalid, NotFound
from lakehand.domain.tables import Scheduling, TableChanges, TableId
from tests.store.given import CLEAN, CLUSTERING, COMPACTION, HOUR, NOON, a_pending_operation, a_table, spec, table_count


def test_a_table_comes_back_as_it_was_described(store: Store) -> None:
    wanted = spec(
        "s3://bucket/ünï 🐘",
        owner="ann",
        queue="fast",
        priority=7,
        action_types=frozenset({COMPACTION, CLEAN}),
        scheduling=Scheduling.SERVICE,
        heartbeat_timeout=timedelta(milliseconds=1500),
        catalog="hive",
        properties={"a": "b"},
    )

    table, is_new = store.tables.add(wanted, now=NOON)

    assert is_new
    assert table.spec == wanted
    assert store.tables.get(table.id) == table
    assert (table.created_at, table.paused, table.removed, table.notified_at) == (NOON, False, False, None)


def test_a_registered_table_is_found_unchanged(store: Store) -> None:
    first = a_table(store)

    again, is_new = store.tables.add(spec(owner="someone else"), now=NOON + HOUR)

    assert not is_new
    assert again == first


def test_a_new_table_is_due_at_once_for_each_action(store: Store) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLEAN}))

    assert [(s.action, s.due) for s in store.schedules.of_table(table.id)] == [(CLEAN, NOON), (COMPACTION, NOON)]


def test_a_name_with_a_database_belongs_to_one_location(store: Store) -> None:
    a_table(store, "/w/orders")

    with pytest.raises(Conflict, match=r"another table is called sales\.orders"):
        store.tables.add(spec("/w/other"), now=NOON)

    assert table_count(store) == 1


def test_names_without_a_database_may_repeat(store: Store) -> None:
    one = a_table(store, "/w/1", db_name="", table_name="orders")
    two = a_table(store, "/w/2", db_name="", table_name="orders")

    assert store.tables.by_name("", "orders") == [one, two]


def test_names_and_locations_that_differ_in_case_differ(store: Store) -> None:
    small = a_table(store, "/w/orders", table_name="orders")
    tall = a_table(store, "/w/Orders", table_name="Orders")

    assert store.tables.by_name("sales", "Orders") == [tall]
    assert store.tables.by_locations(["/w/orders"])["/w/orders"].id == small.id
    assert [t.id for t in store.tables.list(TableFilter(table_name="Orders"), limit=9, cursor=None).items] == [tall.id]


def test_all_spellings_of_a_storage_are_one_place(store: Store) -> None:
    table = a_table(store, "s3a://bucket/t")

    assert store.tables.by_locations(["s3://bucket/t", "s3n://bucket/t", "s3://bucket/u"]) == {
        "s3://bucket/t": table,
        "s3n://bucket/t": table,
    }


def test_many_tables_are_found_at_once(store: Store) -> None:
    known = a_table(store, "/w/t7")

    assert store.tables.by_locations([f"/w/t{n}" for n in range(1200)]) == {"/w/t7": known}
    assert store.tables.by_ids([known.id, TableId(10**9)]) == {known.id: known}
    assert store.tables.by_ids([]) == {}


def test_an_unknown_table_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.tables.get(TableId(10**9))
    with pytest.raises(NotFound):
        store.tables.change(TableId(10**9), TableChanges(owner="x"), now=NOON)
    with pytest.raises(NotFound):
        store.tables.remove(TableId(10**9), now=NOON)


def test_a_change_touches_only_what_it_names(store: Store) -> None:
    table = a_table(store, owner="ann", priority=3)

    changed = store.tables.change(table.id, TableChanges(priority=0, paused=True, properties={}), now=NOON + HOUR)

    assert (changed.spec.priority, changed.paused, changed.spec.owner) == (0, True, "ann")
    assert changed.updated_at == NOON + HOUR
    assert store.tables.get(table.id) == changed


def test_every_field_can_be_changed(store: Store) -> None:
    table = a_table(store)
    changes = TableChanges(
        owner="bob",
        queue="slow",
        priority=-1,
        scheduling=Scheduling.SERVICE,
        heartbeat_timeout=HOUR,
        properties={"k": "v"},
    )

    spec_now = store.tables.change(table.id, changes, now=NOON).spec

    assert (spec_now.owner, spec_now.queue, spec_now.priority) == ("bob", "slow", -1)
    assert (spec_now.scheduling, spec_now.heartbeat_timeout) == (Scheduling.SERVICE, HOUR)
    assert spec_now.properties == {"k": "v"}


def test_schedules_follow_the_action_types(store: Store) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLEAN}))

    wanted = TableChanges(action_types=frozenset({COMPACTION, CLUSTERING}))
    changed = store.tables.change(table.id, wanted, now=NOON + HOUR)

    due = {s.action: s.due for s in store.schedules.of_table(table.id)}
    assert changed.spec.action_types == {COMPACTION, CLUSTERING}
    assert due == {COMPACTION: NOON, CLUSTERING: NOON + HOUR}


def test_a_removed_table_leaves_its_history(store: Store) -> None:
    table = a_table(store)
    operation = a_pending_operation(store, table)

    store.tables.remove(table.id, now=NOON)

    assert store.tables.get(table.id).removed
    assert store.operations.get(operation.id) == operation
    assert store.schedules.of_table(table.id) == []
    assert store.tables.by_locations([table.location]) == {}
    assert store.tables.by_name("sales", "orders") == []
    assert table_count(store) == 0
    with pytest.raises(NotFound):
        store.tables.change(table.id, TableChanges(owner="x"), now=NOON)


def test_a_removed_table_is_revived_under_its_id_with_the_new_settings(store: Store) -> None:
    old = a_table(store, owner="ann")
    store.probes.finish({old.id: NOON + HOUR}, {old.id: "seen"}, now=NOON)
    store.tables.change(old.id, TableChanges(paused=True), now=NOON)
    store.tables.remove(old.id, now=NOON)

    table, is_new = store.tables.add(spec(owner="bob", action_types=frozenset({CLEAN})), now=NOON + HOUR)

    assert is_new
    assert (table.id, table.spec.owner, table.paused, table.removed) == (old.id, "bob", False, False)
    assert (table.created_at, table.change_token) == (NOON, None)
    assert [(s.action, s.due) for s in store.schedules.of_table(table.id)] == [(CLEAN, NOON + HOUR)]


def test_the_name_of_a_removed_table_is_free(store: Store) -> None:
    old = a_table(store, "/w/old", table_name="orders")
    store.tables.remove(old.id, now=NOON)
    new = a_table(store, "/w/new", table_name="orders")

    assert store.tables.by_name("sales", "orders") == [new]
    with pytest.raises(Conflict):
        store.tables.add(spec("/w/old"), now=NOON)


def test_pages_show_every_table_once_although_some_come_and_go(store: Store) -> None:
    tables = [a_table(store, f"/w/t{n}") for n in range(5)]

    first = store.tables.list(TableFilter(), limit=2, cursor=None)
    store.tables.remove(tables[0].id, now=NOON)
    second = store.tables.list(TableFilter(), limit=2, cursor=first.next)
    third = store.tables.list(TableFilter(), limit=2, cursor=second.next)

    assert [t.id for page in (first, second, third) for t in page.items] == [t.id for t in tables]
    assert third.next is None


@pytest.mark.parametrize("cursor", ["", "x", "%%%", "LTE", "MSwy", "MTAw" * 20, "é"])
def test_a_cursor_that_is_not_ours_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(Invalid, match="is not a cursor"):
        store.tables.list(TableFilter(), limit=2, cursor=cursor)


@pytest.mark.parametrize(
    "wanted",
    [
        TableFilter(location="s3a://b/one"),
        TableFilter(db_name="one"),
        TableFilter(table_name="one"),
        TableFilter(owner="one"),
        TableFilter(queue="one"),
        TableFilter(paused=True),
        TableFilter(format="hudi", db_name="one", paused=True),
    ],
)
def test_tables_are_filtered(store: Store, wanted: TableFilter) -> None:
    one = a_table(store, "s3://b/one", db_name="one", owner="one", queue="one")
    store.tables.change(one.id, TableChanges(paused=True), now=NOON)
    a_table(store, "s3://b/two")

    assert [t.id for t in store.tables.list(wanted, limit=9, cursor=None).items] == [one.id]


def test_removed_tables_are_listed_apart(store: Store) -> None:
    gone, here = a_table(store, "/w/gone"), a_table(store, "/w/here")
    store.tables.remove(gone.id, now=NOON)

    assert [t.id for t in store.tables.list(TableFilter(removed=True), limit=9, cursor=None).items] == [gone.id]
    assert [t.id for t in store.tables.list(TableFilter(), limit=9, cursor=None).items] == [here.id]


NESTED = ["/w/sales/orders", "/w/sales/orders/a", "/w/sales/orders/Ünï", "/w/sales/Orders", "/w/sales/orders-2"]


@pytest.mark.parametrize(
    ("real", "found"),
    [
        ("/w/sales/orders", ["/w/sales/orders", "/w/sales/orders/a", "/w/sales/orders/Ünï"]),
        ("/w/sales/orders/a/b", ["/w/sales/orders", "/w/sales/orders/a"]),
        ("/w/sales", NESTED),
        ("/w/sales/orders0", []),
        ("s3a://lake/t/data", ["s3://lake/t"]),
        (f"/w/{'ü' * 900}/x", [f"/w/{'ü' * 900}"]),
    ],
)  # fmt: skip
def test_tables_that_overlap_with_a_path_are_found_by_their_real_paths(
    store: Store, real: str, found: list[str]
) -> None:
    for location in (*NESTED, "s3://lake/t", f"/w/{'ü' * 900}"):
        a_table(store, location, db_name="", table_name="t")
    link = store.tables.add(spec("/w/link"), now=NOON, real="/w/hr/mine")[0]
    assert [table.location for table in store.tables.overlapping(real)] == found
    assert store.tables.overlapping("/w/hr") == store.tables.overlapping("/w/hr/mine/x") == [link]
    store.tables.set_real(link.id, "/w/fin/mine")
    moved, known = store.tables.with_overlapping(link.id)
    assert (known, store.tables.overlapping("/w/hr")) == ([moved], [])
    store.tables.remove(link.id, now=NOON)
    assert store.tables.overlapping("/w/fin/mine") == []
