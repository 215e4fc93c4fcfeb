# SPDX-License-Identifier: Apache-2.0
"""States: written only over what was seen."""

from lakehand.core.ports import Store
from tests.store.given import a_table


def test_a_state_is_kept_by_table_factory_and_key(store: Store) -> None:
    table, other = a_table(store), a_table(store, "/w/other")

    assert store.states.put(table.id, "hudi", "seen", '{"ü": 1}', seen=None)

    assert store.states.get(table.id, "hudi", "seen") == '{"ü": 1}'
    assert store.states.get(table.id, "hudi", "Seen") is None
    assert store.states.get(table.id, "delta", "seen") is None
    assert store.states.get(other.id, "hudi", "seen") is None


def test_a_state_that_has_moved_is_not_overwritten(store: Store) -> None:
    table = a_table(store)
    store.states.put(table.id, "hudi", "k", "1", seen=None)

    assert not store.states.put(table.id, "hudi", "k", "2", seen=None)
    assert not store.states.put(table.id, "hudi", "k", "2", seen="0")
    assert store.states.put(table.id, "hudi", "k", "2", seen="1")
    assert store.states.put(table.id, "hudi", "k", "2", seen="2")
    assert store.states.get(table.id, "hudi", "k") == "2"


def test_a_state_that_is_not_there_cannot_have_been_seen(store: Store) -> None:
    table = a_table(store)

    assert not store.states.put(table.id, "hudi", "k", "2", seen="1")
    assert store.states.get(table.id, "hudi", "k") is None


def test_a_large_state_is_kept_whole(store: Store) -> None:
    table, value = a_table(store), "x" * 200_000

    store.states.put(table.id, "hudi", "k", value, seen=None)

    assert store.states.get(table.id, "hudi", "k") == value
