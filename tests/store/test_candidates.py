# SPDX-License-Identifier: Apache-2.0
"""Candidates: what may go next, so chosen that nothing hides anything else."""

import random
from typing import Any

import pytest

from lakehand.core.ports import Store
from lakehand.domain.events import Event
from lakehand.domain.operations import NewOperation
from lakehand.domain.processes import Instant
from lakehand.domain.rules import Closed, Limits, rank
from lakehand.domain.tables import Format, TableChanges
from tests.store.given import (
    CLUSTERING,
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
    process,
    queue_of,
)

DELTA = Format("delta")


def instants(store: Store, *, limit: int = 100) -> list[str]:
    return [candidate.operation.instant for candidate in queue_of(store, now=NOON, limit=limit).candidates]


def test_a_candidate_is_the_whole_operation_with_the_format_of_its_table(store: Store) -> None:
    pending = a_pending_operation(store)

    [candidate] = queue_of(store, now=NOON, limit=9).candidates

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

    assert queue_of(store, now=NOON, limit=9).candidates == []
    assert [c.operation for c in queue_of(store, now=NOON + HOUR, limit=9).candidates] == [claimed]


def test_candidates_come_in_the_order_of_the_rules(store: Store) -> None:
    chance = random.Random(22)
    for n in range(60):
        due = NOON - chance.randrange(200) * MINUTE
        store.operations.add(
            NewOperation(
                table=a_table(store, f"/w/t{n % 7}").id, instant=Instant(f"{n:02}"), due_at=due,
                priority=chance.randrange(-3, 4), process=process(urgent=chance.random() < 0.3),
            ),
            now=NOON,
        )  # fmt: skip

    found = [c.operation for c in queue_of(store, limit=60).candidates]

    assert len(found) == 60
    assert found == sorted(found, key=lambda one: rank(one, Limits(), NOON))
    assert [c.operation for c in queue_of(store, limit=7).candidates] == found[:7]


CLOSED: dict[str, tuple[Closed, dict[str, Any]]] = {
    "a queue": (Closed(queues=["slow"]), {"queue": "slow"}),
    "an owner's share": (Closed(owners=["greedy"]), {"owner": "greedy"}),
    "a format and action": (Closed(pairs=[("hudi", "clustering")]), {"of": {"action": CLUSTERING}}),
    "an engine": (Closed(engines=["away"]), {"of": {"engine": "away", "job": "x"}}),
}


@pytest.mark.parametrize("what", CLOSED)
def test_whatever_is_in_nothing_closed_is_found_behind_all_that_is(store: Store, what: str) -> None:
    closed, values = CLOSED[what]
    for n in range(12):
        a_pending_operation(store, a_table(store, f"/w/t{n}"), str(n), priority=9, due_at=NOON - HOUR, **values)
    a_pending_operation(store, a_table(store, "/w/other", format=DELTA), "other")

    assert [c.operation.instant for c in queue_of(store, limit=3, closed=closed).candidates] == ["other"]


def test_a_closed_pair_is_of_its_format_alone(store: Store) -> None:
    a_pending_operation(store, a_table(store), "hudi")
    a_pending_operation(store, a_table(store, "/w/other", format=DELTA), "delta")

    closed = Closed(pairs=[("hudi", "compaction"), ("paimon", "compaction")])

    assert [c.operation.instant for c in queue_of(store, closed=closed).candidates] == ["delta"]


def test_a_busy_table_hides_neither_others_nor_its_other_conflict_classes(store: Store) -> None:
    crowded = a_table(store, "/w/crowded")
    for n in range(12):
        a_pending_operation(store, crowded, str(n), priority=9)
    a_pending_operation(store, crowded, "other", of={"conflict_class": "metadata"})
    a_pending_operation(store, a_table(store, "/w/quiet"), "quiet")

    found = queue_of(store, limit=3, closed=Closed(slots=[f"{crowded.id}:table", "77:table"])).candidates

    assert {c.operation.instant for c in found} == {"other", "quiet"}


def test_what_has_no_job_yet_has_no_engine_that_could_be_closed(store: Store) -> None:
    a_pending_operation(store, of={"engine": "away"})

    assert len(queue_of(store, closed=Closed(engines=["away"])).candidates) == 1


def test_owners_with_their_share_come_when_no_other_has_a_candidate(store: Store) -> None:
    a_pending_operation(store, owner="greedy")

    found = queue_of(store, closed=Closed(owners=["greedy"]))

    assert [c.operation.owner for c in found.candidates] == ["greedy"]
    assert not found.has_more_owners


def test_when_every_slot_is_taken_nothing_is_read(store: Store) -> None:
    a_pending_operation(store)

    assert queue_of(store, closed=Closed(is_full=True)).candidates == []


def test_as_many_as_there_are_come_within_the_limit(store: Store) -> None:
    for n in range(6):
        a_pending_operation(store, a_table(store, f"/w/t{n}"), str(n), priority=n, due_at=NOON - n * MINUTE)

    assert sorted(instants(store, limit=6)) == list("012345")
    assert len(instants(store, limit=5)) == 5


def test_a_claimed_candidate_makes_room_for_the_next(store: Store) -> None:
    table = a_table(store)
    for n in range(5):
        a_pending_operation(store, table, str(n), due_at=NOON - (9 - n) * MINUTE)
    first = queue_of(store, limit=1).candidates[0].operation
    store.operations.claim(first, holder=ONE, now=NOON, time_to_live=MINUTE)

    assert (first.instant, instants(store, limit=3)) == ("0", ["1", "2", "3"])
