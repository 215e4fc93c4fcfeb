# SPDX-License-Identifier: Apache-2.0
"""Leases: one holder per row, one live operation per slot, and nothing written by whoever came too late."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lakehand.core.ports import Store
from lakehand.domain.errors import Conflict, LeaseLost
from lakehand.domain.events import Event
from lakehand.domain.operations import LeaseToken, Operation, Status
from lakehand.domain.rules import Busy
from lakehand.domain.tables import TableChanges
from tests.store.given import (
    CLEAN,
    HOUR,
    MINUTE,
    NOON,
    ONE,
    SECOND,
    TWO,
    a_claimed_operation,
    a_finished_operation,
    a_pending_operation,
    a_running_operation,
    a_table,
    an_attempt,
    queue_of,
)


def take(store: Store, operation: Operation) -> Operation:
    taker = store.operations.take_over(operation, holder=TWO, now=NOON + HOUR, time_to_live=MINUTE)
    assert taker is not None
    return taker


def test_a_claim_takes_the_lease_and_leaves_the_status(store: Store) -> None:
    pending = a_pending_operation(store)

    claimed = store.operations.claim(pending, holder=ONE, now=NOON, time_to_live=MINUTE)

    assert claimed is not None
    assert claimed.lease is not None
    assert (claimed.status, claimed.lease.holder, claimed.lease.until) == (Status.PENDING, ONE, NOON + MINUTE)
    assert store.operations.get(pending.id) == claimed
    assert queue_of(store, now=NOON, limit=9).candidates == []


def test_a_second_claim_gets_nothing_while_the_lease_lasts(store: Store) -> None:
    pending = a_pending_operation(store)
    store.operations.claim(pending, holder=ONE, now=NOON, time_to_live=MINUTE)

    assert store.operations.claim(pending, holder=TWO, now=NOON + MINUTE - SECOND, time_to_live=MINUTE) is None
    assert store.operations.claim(pending, holder=TWO, now=NOON + MINUTE, time_to_live=MINUTE) is not None


@pytest.mark.parametrize("change", ["canceled", "paused", "removed", "too early", "live", "finished"])
def test_a_claim_repeats_the_whole_condition(store: Store, change: str) -> None:
    table = a_table(store)
    seen = a_pending_operation(store, table, due_at=NOON + HOUR if change == "too early" else NOON)
    if change == "canceled":
        store.operations.request_cancel(seen.id, now=NOON, event=Event(kind="x", message="y"))
    if change == "paused":
        store.tables.change(table.id, TableChanges(paused=True), now=NOON)
    if change == "removed":
        store.tables.remove(table.id, now=NOON)
    if change in ("live", "finished"):
        claimed = store.operations.claim(seen, holder=ONE, now=NOON, time_to_live=SECOND)
        assert claimed is not None
        step = Status.SUBMITTED if change == "live" else Status.DROPPED
        store.operations.save(claimed.moved_to(step, at=NOON, reason="moved"), now=NOON)

    assert store.operations.claim(seen, holder=TWO, now=NOON + MINUTE, time_to_live=MINUTE) is None


def test_one_operation_of_a_table_and_class_is_live(store: Store) -> None:
    table = a_table(store)
    a_running_operation(store, table, "1")
    rival = a_pending_operation(store, table, "2")
    other_class = a_pending_operation(store, table, "3", of={"conflict_class": "metadata"})
    other_table = a_pending_operation(store, a_table(store, "/w/other"), "1")

    assert store.operations.claim(rival, holder=TWO, now=NOON, time_to_live=MINUTE) is None
    assert store.operations.claim(other_class, holder=TWO, now=NOON, time_to_live=MINUTE) is not None
    assert store.operations.claim(other_table, holder=TWO, now=NOON, time_to_live=MINUTE) is not None


def test_a_slot_is_free_when_its_operation_ends(store: Store) -> None:
    table = a_table(store)
    a_finished_operation(store, table, "1")

    assert a_claimed_operation(store, table, "2").lease is not None


def test_a_holder_cannot_move_into_a_taken_slot(store: Store) -> None:
    table = a_table(store)
    a_running_operation(store, table, "1")
    held = a_claimed_operation(store, table, "2", of={"conflict_class": "metadata"})

    with pytest.raises(Conflict, match="holds the slot"):
        store.operations.save(replace(held, process=replace(held.process, conflict_class="table")), now=NOON)

    assert store.operations.get(held.id) == held


def test_a_late_holder_can_write_nothing(store: Store) -> None:
    late = a_running_operation(store)
    taker = take(store, late)

    with pytest.raises(LeaseLost):
        store.operations.save(
            late.moved_to(Status.SUCCEEDED, at=NOON, reason="done"),
            now=NOON + HOUR,
            attempt=an_attempt(late),
            event=Event(kind="operation.succeeded", message="done"),
        )

    assert store.operations.get(late.id) == taker
    assert store.operations.attempts(late.id) == []
    assert store.events.list(operation=late.id).items == []


def test_a_late_claimer_can_write_nothing(store: Store) -> None:
    late = a_claimed_operation(store)
    taker = store.operations.claim(late, holder=TWO, now=NOON + MINUTE, time_to_live=MINUTE)

    with pytest.raises(LeaseLost):
        store.operations.save(late.moved_to(Status.SUBMITTED, at=NOON, reason="sent"), now=NOON + MINUTE)

    assert store.operations.get(late.id) == taker


def test_a_lease_is_prolonged_while_it_is_ours(store: Store) -> None:
    table, other = a_table(store), a_table(store, "/w/other")
    ours, lost = a_running_operation(store, table), a_running_operation(store, other)
    take(store, lost)
    leases = {o.id: o.lease.token for o in (ours, lost) if o.lease}

    kept = store.operations.renew(leases, now=NOON + HOUR, time_to_live=MINUTE)

    renewed = store.operations.get(ours.id).lease
    assert set(kept) == {ours.id}
    assert renewed is not None
    assert ours.lease is not None
    assert (renewed.until, renewed.token) == (NOON + HOUR + MINUTE, ours.lease.token)


def test_a_token_of_another_row_renews_nothing(store: Store) -> None:
    ours = a_running_operation(store)

    assert set(store.operations.renew({ours.id: LeaseToken("other")}, now=NOON, time_to_live=HOUR)) == set()
    assert set(store.operations.renew({}, now=NOON, time_to_live=HOUR)) == set()
    assert store.operations.get(ours.id) == ours


def test_an_instance_finds_what_it_holds(store: Store) -> None:
    running = a_running_operation(store)
    a_pending_operation(store, a_table(store, "/w/other"))

    assert store.operations.held(ONE) == [running]
    assert store.operations.held(TWO) == []


def test_late_operations_are_those_past_lease_and_margin_the_latest_first(store: Store) -> None:
    latest = a_running_operation(store, a_table(store, "/w/1"))
    claimed = a_claimed_operation(store, a_table(store, "/w/2"))
    store.operations.renew(
        {claimed.id: claimed.lease.token} if claimed.lease else {}, now=NOON + SECOND, time_to_live=MINUTE
    )
    a_pending_operation(store, a_table(store, "/w/3"))
    end = NOON + MINUTE + MINUTE

    def late(now: timedelta, limit: int = 9) -> list[int]:
        return [o.id for o in store.operations.late(now=end + now, margin=MINUTE, limit=limit)]

    assert late(timedelta()) == []
    assert late(SECOND) == [latest.id]
    assert late(MINUTE) == [latest.id, claimed.id]
    assert late(MINUTE, limit=1) == [latest.id]


def test_a_take_over_brings_a_fresh_token_and_keeps_the_rest(store: Store) -> None:
    late = a_running_operation(store)

    taker = take(store, late)

    assert taker.lease is not None
    assert late.lease is not None
    assert (taker.lease.holder, taker.lease.until) == (TWO, NOON + HOUR + MINUTE)
    assert taker.lease.token != late.lease.token
    assert replace(taker, lease=late.lease, updated_at=late.updated_at) == late


def test_one_of_two_takers_wins(store: Store) -> None:
    late = a_running_operation(store)
    take(store, late)

    assert store.operations.take_over(late, holder=ONE, now=NOON + HOUR, time_to_live=MINUTE) is None


def test_a_holder_that_has_renewed_is_not_taken_over(store: Store) -> None:
    late = a_running_operation(store)
    assert late.lease is not None
    store.operations.renew({late.id: late.lease.token}, now=NOON + HOUR, time_to_live=MINUTE)

    assert store.operations.take_over(late, holder=TWO, now=NOON + HOUR, time_to_live=MINUTE) is None


def test_what_nobody_holds_cannot_be_taken_over(store: Store) -> None:
    assert store.operations.take_over(a_pending_operation(store), holder=TWO, now=NOON, time_to_live=MINUTE) is None


def test_a_lease_begins_at_the_databases_time_of_its_claim(store: Store) -> None:
    pending = a_pending_operation(store, a_table(store))

    before = store.clock.now()
    claimed = store.operations.claim(pending, holder=ONE, time_to_live=HOUR)
    after = store.clock.now()

    assert claimed is not None
    assert claimed.lease is not None
    assert before + HOUR <= claimed.lease.until <= after + HOUR


def test_every_live_operation_is_busy(store: Store) -> None:
    table = a_table(store)
    running = a_running_operation(store, table, of={"action": CLEAN}, queue="fast", owner="ann")
    a_pending_operation(store, table, "2")
    a_finished_operation(store, a_table(store, "/w/other"))

    assert queue_of(store, now=NOON, limit=9).busy == [
        Busy(
            table=table.id,
            slot=running.slot,
            queue="fast",
            owner="ann",
            format="hudi",
            action="clean",
            engine="spark",
            holder="one",
        )
    ]


def test_no_two_operations_have_the_same_dispatch_slot(store: Store) -> None:
    tables = [a_table(store, f"/w/t{n}") for n in range(3)]
    pending = [a_pending_operation(store, table) for table in tables]
    slots = ["hudi:compaction#0", "hudi:compaction#1"]

    claims = [
        store.operations.claim(o, holder=ONE, now=NOON, time_to_live=MINUTE, dispatch_slots=slots) for o in pending
    ]

    assert [claim is not None for claim in claims] == [True, True, False]


@pytest.mark.parametrize("end", ["put back", "finished", "canceled"])
def test_a_place_is_free_again_when_its_operation_is_not_held_any_more(store: Store, end: str) -> None:
    first, second = (a_pending_operation(store, a_table(store, f"/w/t{n}")) for n in range(2))
    held = store.operations.claim(first, holder=ONE, now=NOON, time_to_live=MINUTE, dispatch_slots=["p#0"])
    assert held is not None
    if end == "put back":
        store.operations.save(held, now=NOON, release=True)
    elif end == "finished":
        store.operations.save(held.moved_to(Status.DROPPED, at=NOON, reason="gone"), now=NOON)
    else:
        store.operations.request_cancel(held.id, now=NOON + HOUR, event=Event(kind="x", message="y"))

    assert store.operations.claim(second, holder=ONE, now=NOON, time_to_live=MINUTE, dispatch_slots=["p#0"]) is not None


def test_whoever_takes_an_operation_over_keeps_its_place(store: Store) -> None:
    first, second = (a_pending_operation(store, a_table(store, f"/w/t{n}")) for n in range(2))
    held = store.operations.claim(first, holder=ONE, now=NOON, time_to_live=MINUTE, dispatch_slots=["p#0"])
    assert held is not None
    take(store, held)

    assert (
        store.operations.claim(second, holder=ONE, now=NOON + HOUR, time_to_live=MINUTE, dispatch_slots=["p#0"]) is None
    )
