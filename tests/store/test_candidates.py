# SPDX-License-Identifier: Apache-2.0
"""Candidates: what may go next, so chosen that nothing hides anything else."""

from collections import Counter

import pytest

from lakehand.core.ports import Store
from lakehand.domain.events import Event
from lakehand.domain.tables import TableChanges
from tests.store.given import (
    HOUR,
    HUDI,
    MINUTE,
    NOON,
    ONE,
    a_claimed_operation,
    a_finished_operation,
    a_pending_operation,
    a_running_operation,
    a_table,
)


def instants(store: Store, *, limit: int = 100) -> list[str]:
    return [
        candidate.operation.instant for candidate in store.operations.dispatch_queue(now=NOON, limit=limit).candidates
    ]


def test_a_candidate_is_the_whole_operation_with_the_format_of_its_table(store: Store) -> None:
    pending = a_pending_operation(store)

    [candidate] = store.operations.dispatch_queue(now=NOON, limit=9).candidates

    assert (candidate.operation, candidate.format) == (pending, HUDI)


def test_what_may_not_start_is_no_candidate(store: Store) -> None:
    paused, removed = a_table(store, "/w/paused"), a_table(store, "/w/removed")
    a_pending_operation(store, paused)
    a_pending_operation(store, removed)
    store.tables.change(paused.id, TableChanges(paused=True), now=NOON)
    store.tables.remove(removed.id, now=NOON)
    a_pending_operation(store, a_table(store, "/w/1"), due_at=NOON + MINUTE)
    a_claimed_operation(store, a_table(store, "/w/2"))
    a_running_operation(store, a_table(store, "/w/3"))
    a_finished_operation(store, a_table(store, "/w/4"))
    canceled = a_pending_operation(store, a_table(store, "/w/5"))
    store.operations.request_cancel(canceled.id, now=NOON, event=Event(kind="x", message="y"))

    assert instants(store) == []


def test_a_claim_that_ran_out_is_a_candidate_again(store: Store) -> None:
    claimed = a_claimed_operation(store)

    assert store.operations.dispatch_queue(now=NOON, limit=9).candidates == []
    assert [c.operation for c in store.operations.dispatch_queue(now=NOON + HOUR, limit=9).candidates] == [claimed]


def test_one_table_with_many_plans_hides_no_other(store: Store) -> None:
    crowded, quiet = a_table(store, "/w/crowded"), a_table(store, "/w/quiet")
    for n in range(50):
        a_pending_operation(store, crowded, f"{n:02}", priority=9, due_at=NOON - HOUR)
    a_pending_operation(store, quiet, "quiet")

    shown = store.operations.dispatch_queue(now=NOON, limit=10).candidates

    counts = Counter(c.operation.table for c in shown)
    assert counts[quiet.id] == 1
    assert 1 <= counts[crowded.id] <= 5


def test_the_first_of_a_table_are_the_urgent_the_important_and_the_old(store: Store) -> None:
    table = a_table(store)
    a_pending_operation(store, table, "plain")
    a_pending_operation(store, table, "old", due_at=NOON - HOUR)
    a_pending_operation(store, table, "important", priority=5)
    a_pending_operation(store, table, "urgent", of={"urgent": True})

    assert set(instants(store)) == {"urgent", "important", "old"}


def test_one_class_of_a_table_does_not_hide_another(store: Store) -> None:
    table = a_table(store)
    for n in range(9):
        a_pending_operation(store, table, str(n), priority=9)
    a_pending_operation(store, table, "other", of={"conflict_class": "metadata"})

    assert "other" in instants(store)


@pytest.mark.parametrize("limit", [2, 4, 10])
def test_the_important_and_the_old_are_both_among_the_first(store: Store, limit: int) -> None:
    for n in range(12):
        a_pending_operation(store, a_table(store, f"/w/t{n}"), f"important-{n:02}", priority=9)
    a_pending_operation(store, a_table(store, "/w/old"), "old", due_at=NOON - HOUR)

    shown = instants(store, limit=limit)

    assert len(shown) == limit
    assert {"important-00", "old"} <= set(shown)


def test_as_many_as_there_are_come_within_the_limit(store: Store) -> None:
    for n in range(6):
        a_pending_operation(store, a_table(store, f"/w/t{n}"), str(n), priority=n, due_at=NOON - n * MINUTE)

    assert sorted(instants(store, limit=6)) == list("012345")
    assert len(instants(store, limit=5)) == 5


def test_a_claimed_candidate_makes_room_for_the_next(store: Store) -> None:
    table = a_table(store)
    for n in range(5):
        a_pending_operation(store, table, str(n), due_at=NOON - (9 - n) * MINUTE)
    first = store.operations.dispatch_queue(now=NOON, limit=1).candidates[0].operation
    store.operations.claim(first, holder=ONE, now=NOON, time_to_live=MINUTE)

    assert (first.instant, instants(store)) == ("0", ["1", "2", "3"])
