# SPDX-License-Identifier: Apache-2.0
"""Operations: one per (table, instant), written by their holder, ended, reopened and removed."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from lakehand.core.ports import OperationFilter, Store
from lakehand.domain.errors import Conflict, IllegalStep, Invalid, LeaseLost, NotFound
from lakehand.domain.events import Event
from lakehand.domain.operations import (
    AttemptEnd,
    ExternalId,
    Handle,
    NewOperation,
    OperationChanges,
    OperationId,
    Status,
    taken_off,
)
from lakehand.domain.processes import Failure, Instant, Remedy
from lakehand.domain.tables import Scheduling, TableChanges, TableId
from lakehand.store import SqlStore
from lakehand.store.schema import attempt as attempt_table
from lakehand.store.schema import tbl
from tests.store.given import (
    CLEAN,
    COMPACTION,
    HOUR,
    MINUTE,
    NOON,
    ONE,
    PLAN,
    SECOND,
    TWO,
    a_claimed_operation,
    a_finished_operation,
    a_pending_operation,
    a_running_operation,
    a_table,
    an_attempt,
    process,
    queue_of,
)

ASKED = Event(kind="operation.canceled", message="canceled by ann")
AGAIN = Event(kind="operation.reopened", message="retried by ann")


def test_an_operation_comes_back_as_it_was_described(store: Store) -> None:
    table = a_table(store)
    wanted = process(
        job="hudi.compaction",
        engine="spark-submit",
        instant=PLAN,
        parameters={"options": {"a": [1, None, "ü"]}, "zero": "\x00"},
        conflict_class="files",
        urgent=True,
        reason="12 log files",
    )
    new = NewOperation(
        table=table.id, instant=PLAN, process=wanted, priority=4, queue="fast", owner="ann",
        origin="api", due_at=NOON - HOUR,
    )  # fmt: skip

    operation, is_new = store.operations.add(new, now=NOON)

    assert is_new
    assert operation.process == wanted
    assert (operation.priority, operation.queue, operation.owner, operation.origin) == (4, "fast", "ann", "api")
    assert (operation.status, operation.lease) == (Status.PENDING, None)
    assert (operation.due_at, operation.not_before, operation.created_at) == (NOON - HOUR, NOON - HOUR, NOON)
    assert store.operations.get(operation.id) == operation
    assert store.operations.find(table.id, PLAN) == operation


def test_the_same_request_again_and_again_is_one_operation(store: Store) -> None:
    table = a_table(store)
    new = NewOperation(table=table.id, instant=PLAN, process=process())

    answers = [store.operations.add(new, now=NOON) for _ in range(100)]

    assert {operation.id for operation, _ in answers} == {answers[0][0].id}
    assert [is_new for _, is_new in answers].count(True) == 1
    assert len(store.operations.list(OperationFilter(), limit=10, cursor=None).items) == 1


def test_an_event_comes_along_with_a_new_operation_only(store: Store) -> None:
    table = a_table(store)
    new = NewOperation(table=table.id, instant=PLAN, process=process())
    for _ in range(2):
        operation, _ = store.operations.add(new, now=NOON, event=Event(kind="operation.stored", message="needed"))

    [stored] = store.events.list(operation=operation.id).items

    assert (stored.event.table, stored.event.operation, stored.event.message) == (table.id, operation.id, "needed")


def test_an_operation_needs_its_table(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no table"):
        store.operations.add(NewOperation(table=TableId(10**9), instant=PLAN, process=process()), now=NOON)


def test_an_unknown_operation_is_not_found(store: Store) -> None:
    missing = OperationId(10**9)
    with pytest.raises(NotFound):
        store.operations.get(missing)
    with pytest.raises(NotFound):
        store.operations.request_cancel(missing, now=NOON, event=ASKED)
    assert store.operations.find(TableId(1), PLAN) is None
    assert store.operations.attempts(missing) == []


def test_the_holder_writes_what_became_of_it(store: Store) -> None:
    claimed = a_claimed_operation(store)
    failure = Failure(reason="lock-held", message="held", remedy=Remedy.NOT_YET, delay=timedelta(seconds=5))
    moved = replace(
        claimed.moved_to(Status.SUBMITTED, at=NOON, reason="sent"),
        process=replace(claimed.process, job="hudi.compaction"), run_times=1, deferrals=2, handle=Handle("h-1"),
        progress={"done": 1}, result={"files": 3}, failure=failure, submitted_at=NOON, started_at=NOON + MINUTE,
    )  # fmt: skip

    stored = store.operations.save(moved, now=NOON + MINUTE)

    assert stored == replace(moved, updated_at=NOON + MINUTE)
    assert store.operations.get(claimed.id) == stored


def test_a_returned_operation_gives_its_lease_and_slot_back(store: Store) -> None:
    table = a_table(store)
    running = a_running_operation(store, table)
    later = replace(running.moved_to(Status.PENDING, at=NOON, reason="again"), not_before=NOON + HOUR)

    returned = store.operations.save(later, now=NOON, release=True)

    assert (returned.lease, returned.status, returned.not_before) == (None, Status.PENDING, NOON + HOUR)
    assert a_claimed_operation(store, table, "2").slot == running.slot


def test_an_operation_that_ends_pauses_its_table_if_that_is_asked(store: Store) -> None:
    running = a_running_operation(store)
    failed = running.moved_to(Status.FAILED, at=NOON, reason="other rows")

    store.operations.save(failed, now=NOON, pause="it changed rows \x00")

    table = store.tables.get(running.table)
    assert (table.paused, table.pause_reason) == (True, "it changed rows \N{REPLACEMENT CHARACTER}")
    resumed = store.tables.change(table.id, TableChanges(paused=False), now=NOON)
    assert (resumed.paused, resumed.pause_reason) == (False, "")


def test_a_table_that_an_older_version_resumed_has_no_reason_for_a_pause(store: SqlStore) -> None:
    running = a_running_operation(store)
    store.operations.save(running.moved_to(Status.FAILED, at=NOON, reason="other rows"), now=NOON, pause="other rows")

    store.database.write(lambda tx: tx.execute(update(tbl).values(paused=False)))

    assert store.tables.get(running.table).pause_reason == ""


def test_a_late_holder_pauses_nothing(store: Store) -> None:
    running = a_running_operation(store)
    store.operations.save(running.moved_to(Status.FAILED, at=NOON, reason="over"), now=NOON)

    with pytest.raises(LeaseLost):
        store.operations.save(running.moved_to(Status.FAILED, at=NOON, reason="late"), now=NOON, pause="too late")

    assert not store.tables.get(running.table).paused


def test_a_final_operation_never_keeps_a_lease(store: Store) -> None:
    done = a_finished_operation(store, status=Status.SUCCEEDED, at=NOON + HOUR)

    assert (done.lease, done.finished_at) == (None, NOON + HOUR)
    assert store.operations.held(ONE) == []


def test_a_live_operation_cannot_be_let_go(store: Store) -> None:
    with pytest.raises(IllegalStep):
        store.operations.save(a_running_operation(store), now=NOON, release=True)


def test_whoever_holds_no_lease_writes_nothing(store: Store) -> None:
    pending = a_pending_operation(store)

    with pytest.raises(LeaseLost):
        store.operations.save(pending.moved_to(Status.FAILED, at=NOON, reason="no"), now=NOON)

    assert store.operations.get(pending.id) == pending


def test_attempts_are_kept_by_handle_in_their_order(store: Store) -> None:
    running = a_running_operation(store)
    store.operations.save(running, now=NOON, attempt=an_attempt(running, "h-1"))
    failure = Failure(reason="out-of-memory", message="boom")
    ended = an_attempt(running, "h-1", finished_at=NOON + HOUR, outcome="failed", failure=failure, result={"n": 1})
    store.operations.save(running, now=NOON, attempt=ended)
    second = an_attempt(running, "h-2", number=2)
    store.operations.save(running, now=NOON, attempt=second)

    assert store.operations.attempts(running.id) == [ended, second]


def test_the_end_of_an_attempt_is_written_to_the_one_with_its_handle(store: Store) -> None:
    running = a_running_operation(store)
    first, second = an_attempt(running, "h-1"), an_attempt(running, "h-2", number=2)
    for attempt in (first, second):
        store.operations.save(running, now=NOON, attempt=attempt)
    failure = Failure(reason="out-of-memory", message="boom")

    end = AttemptEnd(handle=Handle("h-1"), at=NOON + HOUR, outcome="failed", failure=failure, result={"n": 1})
    store.operations.save(running, now=NOON, ended=end)

    ended = replace(first, finished_at=NOON + HOUR, outcome="failed", failure=failure, result={"n": 1})
    assert store.operations.attempts(running.id) == [ended, second]


def test_what_an_attempt_is_called_where_it_runs_is_kept_after_its_end(store: Store) -> None:
    running = a_running_operation(store)
    running = store.operations.save(replace(running, handle=Handle("h-2")), now=NOON)
    first, second = an_attempt(running, "h-1"), an_attempt(running, "h-2", number=2)
    for attempt in (first, second):
        store.operations.save(running, now=NOON, attempt=attempt)

    store.operations.save(running, now=NOON, external=ExternalId(id="app-2", url="https://spark/app-2"))
    end = AttemptEnd(handle=Handle("h-2"), at=NOON + HOUR, outcome="failed")
    store.operations.save(running, now=NOON, ended=end)

    ended = replace(second, finished_at=NOON + HOUR, outcome="failed")
    ran_as = replace(ended, external_id="app-2", external_url="https://spark/app-2")
    assert store.operations.attempts(running.id) == [first, ran_as]


def test_a_link_that_a_page_must_not_have_is_not_read(store: SqlStore) -> None:
    running = a_running_operation(store)
    store.operations.save(running, now=NOON, attempt=an_attempt(running))
    odd = update(attempt_table).values(external_id="app-1", external_url="javascript:alert(1)")
    store.database.write(lambda tx: tx.execute(odd).close())

    [attempt] = store.operations.attempts(running.id)

    assert (attempt.external_id, attempt.external_url) == ("app-1", None)


def test_saving_wakes_the_schedules_of_its_table_only_when_asked(store: Store) -> None:
    running, other = a_running_operation(store), a_table(store, "/w/other")

    store.operations.save(running, now=NOON)
    assert [s.wakes for s in store.schedules.of_table(running.table)] == [0]
    store.operations.save(running, now=NOON, wake=True)

    assert [s.wakes for s in store.schedules.of_table(running.table)] == [1]
    assert [s.wakes for s in store.schedules.of_table(other.id)] == [0]


def test_a_write_that_lost_its_lease_wakes_nothing(store: Store) -> None:
    running = a_running_operation(store)
    taken = store.operations.take_over(running, holder=TWO, now=NOON + HOUR, time_to_live=MINUTE)
    assert taken is not None

    with pytest.raises(LeaseLost):
        store.operations.save(running, now=NOON, wake=True)

    assert [s.wakes for s in store.schedules.of_table(running.table)] == [0]


def test_tries_after_a_reopening_do_not_overwrite_the_earlier_ones(store: Store) -> None:
    running = a_running_operation(store)
    first = an_attempt(running, "h-1", number=1)
    failed = running.moved_to(Status.FAILED, at=NOON, reason="over")
    failed = store.operations.save(failed, now=NOON, attempt=first)
    reopened = store.operations.reopen(failed.reopened(at=NOON, reason="again"), now=NOON, event=AGAIN)
    claimed = store.operations.claim(reopened, holder=ONE, now=NOON, time_to_live=MINUTE)
    assert claimed
    again = an_attempt(running, "h-2", number=1)

    store.operations.save(claimed, now=NOON, attempt=again)

    assert store.operations.attempts(running.id) == [first, again]


def test_what_belongs_together_is_written_together(store: Store) -> None:
    running = a_running_operation(store)
    broken = Event(kind="operation.failed", message="no", detail={"what": {1, 2}})  # type: ignore[dict-item]

    with pytest.raises(TypeError):
        store.operations.save(replace(running, reason="new"), now=NOON, attempt=an_attempt(running), event=broken)

    assert store.operations.get(running.id).reason == "runs"
    assert store.operations.attempts(running.id) == []


def test_a_pending_operation_that_nobody_holds_is_canceled_at_once(store: Store) -> None:
    pending = a_pending_operation(store)

    canceled = store.operations.request_cancel(pending.id, now=NOON + HOUR, event=ASKED)

    assert (canceled.status, canceled.reason) == (Status.CANCELED, "canceled by ann")
    assert (canceled.finished_at, canceled.is_deleted) == (NOON + HOUR, False)
    assert [e.event.kind for e in store.events.list(operation=pending.id).items] == ["operation.canceled"]
    assert queue_of(store, now=NOON + HOUR, limit=9).candidates == []


def test_a_removed_operation_is_marked_as_deleted(store: Store) -> None:
    pending = a_pending_operation(store)

    removed = store.operations.request_cancel(pending.id, now=NOON, event=ASKED, delete=True)

    assert (removed.status, removed.is_deleted) == (Status.CANCELED, True)


def test_a_held_operation_is_flagged_for_its_holder(store: Store) -> None:
    running = a_running_operation(store)

    flagged = store.operations.request_cancel(running.id, now=NOON, event=ASKED, delete=True)
    saved = store.operations.save(replace(running, reason="still runs"), now=NOON)

    assert (flagged.status, flagged.cancel_requested, flagged.is_deleted) == (Status.RUNNING, True, True)
    assert (saved.cancel_requested, saved.is_deleted, saved.lease) == (True, True, running.lease)


def test_a_claimed_operation_is_left_to_its_holder(store: Store) -> None:
    claimed = a_claimed_operation(store)

    flagged = store.operations.request_cancel(claimed.id, now=NOON, event=ASKED)

    assert (flagged.status, flagged.cancel_requested, flagged.lease) == (Status.PENDING, True, claimed.lease)


def test_a_claim_that_its_holder_has_forgotten_does_not_hinder_the_cancel(store: Store) -> None:
    claimed = a_claimed_operation(store)

    canceled = store.operations.request_cancel(claimed.id, now=NOON + HOUR, event=ASKED)

    assert (canceled.status, canceled.lease) == (Status.CANCELED, None)
    with pytest.raises(LeaseLost):
        store.operations.save(claimed.moved_to(Status.SUBMITTED, at=NOON, reason="sent"), now=NOON + HOUR)


def test_a_cancellation_is_not_lost_when_the_holder_releases_the_operation(store: Store) -> None:
    running = a_running_operation(store)
    store.operations.request_cancel(running.id, now=NOON, event=ASKED)

    returned = running.moved_to(Status.PENDING, at=NOON, reason="try again")
    saved = store.operations.save(returned, now=NOON + MINUTE, release=True)

    assert (saved.status, saved.lease, saved.finished_at) == (Status.CANCELED, None, NOON + MINUTE)


def test_a_finished_operation_stays_as_it_is(store: Store) -> None:
    done = a_finished_operation(store, status=Status.SUCCEEDED)

    assert store.operations.request_cancel(done.id, now=NOON + HOUR, event=ASKED) == done
    assert store.events.list(operation=done.id).items == []


def test_a_finished_operation_is_removed_once_and_keeps_its_end(store: Store) -> None:
    done = a_finished_operation(store, status=Status.SUCCEEDED)

    removed, again = (
        store.operations.request_cancel(done.id, now=NOON + at, event=ASKED, delete=True) for at in (HOUR, 2 * HOUR)
    )

    assert removed == again == replace(done, is_deleted=True, updated_at=NOON + HOUR)
    assert len(store.events.list(operation=done.id).items) == 1


def test_a_failed_operation_is_retried_on_request(store: Store) -> None:
    failed = a_finished_operation(store)

    reopened = store.operations.reopen(failed.reopened(at=NOON + HOUR, reason="again"), now=NOON + HOUR, event=AGAIN)

    assert (reopened.status, reopened.run_times, reopened.finished_at) == (Status.PENDING, 0, None)
    assert [c.operation for c in queue_of(store, now=NOON + HOUR, limit=9).candidates] == [reopened]
    assert [e.event.kind for e in store.events.list(operation=failed.id).items] == ["operation.reopened"]


def test_a_removed_operation_can_be_requested_again(store: Store) -> None:
    pending = a_pending_operation(store)
    removed = store.operations.request_cancel(pending.id, now=NOON, event=ASKED, delete=True)

    reopened = store.operations.reopen(removed.reopened(at=NOON, reason="again"), now=NOON, event=AGAIN)

    assert (reopened.cancel_requested, reopened.is_deleted) == (False, False)


def test_an_operation_is_reopened_once(store: Store) -> None:
    failed = a_finished_operation(store)
    again = failed.reopened(at=NOON, reason="again")
    store.operations.reopen(again, now=NOON, event=AGAIN)

    with pytest.raises(Conflict, match="is pending by now"):
        store.operations.reopen(again, now=NOON, event=AGAIN)


def test_operations_are_listed_newest_first_page_by_page(store: Store) -> None:
    table = a_table(store)
    all_of_them = [a_pending_operation(store, table, str(n)).id for n in range(5)]

    first = store.operations.list(OperationFilter(), limit=2, cursor=None)
    a_pending_operation(store, table, "newer")
    second = store.operations.list(OperationFilter(), limit=2, cursor=first.next)
    third = store.operations.list(OperationFilter(), limit=2, cursor=second.next)

    assert [o.id for page in (first, second, third) for o in page.items] == all_of_them[::-1]
    assert third.next is None
    with pytest.raises(Invalid):
        store.operations.list(OperationFilter(), limit=2, cursor="nonsense")


@pytest.mark.parametrize(
    "wanted",
    [
        OperationFilter(action=CLEAN),
        OperationFilter(location="s3a://b/one"),
        OperationFilter(statuses=[Status.CANCELED, Status.FAILED]),
        OperationFilter(owner="one"),
        OperationFilter(queue="one"),
        OperationFilter(queue="one", statuses=[Status.CANCELED], location="s3://b/one"),
    ],
)
def test_operations_are_filtered(store: Store, wanted: OperationFilter) -> None:
    table = a_table(store, "s3://b/one")
    one = a_pending_operation(store, table, of={"action": CLEAN}, owner="one", queue="one")
    store.operations.request_cancel(one.id, now=NOON, event=ASKED)
    a_pending_operation(store, a_table(store, "s3://b/two"), of={"action": COMPACTION})

    assert [o.id for o in store.operations.list(wanted, limit=9, cursor=None).items] == [one.id]
    by_table = OperationFilter(table=table.id)
    assert [o.id for o in store.operations.list(by_table, limit=9, cursor=None).items] == [one.id]


def test_a_table_shows_all_its_unfinished_and_a_few_finished_operations(store: Store) -> None:
    table = a_table(store)
    finished = [a_finished_operation(store, table, f"done-{n}").id for n in range(4)]
    waiting = [a_pending_operation(store, table, f"open-{n}").id for n in range(3)]
    running = a_running_operation(store, table, "runs").id
    a_pending_operation(store, a_table(store, "/w/other"))

    shown = [o.id for o in store.operations.of_table(table.id, recent=2)]

    assert shown == [running, *waiting[::-1], *finished[:1:-1]]
    assert [o.id for o in store.operations.of_table(table.id, recent=0)] == [running, *waiting[::-1]]


def test_the_depth_of_a_queue_is_counted_with_its_oldest_due(store: Store) -> None:
    table, paused = a_table(store), a_table(store, "/w/paused")
    a_pending_operation(store, table, "1", queue="fast", due_at=NOON - HOUR)
    a_pending_operation(store, table, "2", queue="fast", due_at=NOON - MINUTE)
    a_pending_operation(store, table, "3", queue="slow", due_at=NOON + HOUR)
    a_pending_operation(store, paused, "4", queue="none")
    a_running_operation(store, table, "5", queue="none")
    store.tables.change(paused.id, TableChanges(paused=True), now=NOON)

    assert store.operations.queue_depth(now=NOON) == {"fast": (2, NOON - HOUR), "slow": (1, None)}


def test_old_finished_operations_are_removed_with_all_that_is_theirs(store: Store) -> None:
    table = a_table(store)
    running = a_running_operation(store, table)
    done = running.moved_to(Status.SUCCEEDED, at=NOON, reason="done")
    store.operations.save(done, now=NOON, attempt=an_attempt(running), event=Event(kind="x", message="y"))
    store.events.add([Event(kind="table.registered", message="kept", table=table.id)], now=NOON)

    assert store.operations.remove_finished(before=NOON, limit=10) == 0
    assert store.operations.remove_finished(before=NOON + MINUTE, limit=10) == 1

    with pytest.raises(NotFound):
        store.operations.get(running.id)
    assert store.operations.attempts(running.id) == []
    assert [e.event.message for e in store.events.list().items] == ["kept"]


def test_the_removal_of_history_never_takes_an_unfinished_operation(store: Store) -> None:
    table = a_table(store)
    a_finished_operation(store, table, "done")
    reopened = a_finished_operation(store, table, "again")
    store.operations.reopen(reopened.reopened(at=NOON, reason="again"), now=NOON, event=AGAIN)
    a_running_operation(store, table, "runs")
    a_pending_operation(store, table, "waits")

    assert store.operations.remove_finished(before=NOON + 1000 * HOUR, limit=100) == 1

    left = {o.instant for o in store.operations.list(OperationFilter(), limit=9, cursor=None).items}
    assert left == {"again", "runs", "waits"}


def test_history_goes_in_bounded_steps_the_oldest_first(store: Store) -> None:
    table = a_table(store)
    for n in range(5):
        a_finished_operation(store, table, str(n), at=NOON + n * MINUTE)

    assert store.operations.remove_finished(before=NOON + HOUR, limit=3) == 3

    left = [o.instant for o in store.operations.list(OperationFilter(), limit=9, cursor=None).items]
    assert left == ["4", "3"]
    assert store.operations.remove_finished(before=NOON + HOUR, limit=3) == 2


def test_a_number_is_never_used_twice(store: Store) -> None:
    table = a_table(store)
    first = a_finished_operation(store, table, "1")
    store.operations.remove_finished(before=NOON + HOUR, limit=9)

    assert a_pending_operation(store, table, "2").id > first.id


def test_instants_that_differ_in_case_differ(store: Store) -> None:
    table = a_table(store)

    assert a_pending_operation(store, table, "a").id != a_pending_operation(store, table, "A").id
    assert store.operations.find(table.id, Instant("b")) is None


def test_operations_are_found_by_their_ids(store: Store) -> None:
    first, second = a_pending_operation(store), a_pending_operation(store, instant="20261115191013999")

    found = store.operations.by_ids({first.id, second.id, OperationId(10**9)})

    assert {operation.id: operation for operation in found} == {first.id: first, second.id: second}
    assert store.operations.by_ids([]) == []


MOVED = Event(kind="operation.changed", message="changed by ann")


def priority_queue_owner(store: Store, id: OperationId) -> tuple[int, str, str]:
    operation = store.operations.get(id)
    return operation.priority, operation.queue, operation.owner


def test_what_waits_follows_its_table_unless_its_request_set_its_own(store: Store) -> None:
    table = a_table(store, priority=1, queue="slow", owner="bob")
    plain = a_pending_operation(store, table, "1")
    own = a_pending_operation(store, table, "2", queue="own")
    claimed = a_claimed_operation(store, table, "3", of={"conflict_class": "other"})
    running = a_running_operation(store, table, "4")
    other = a_pending_operation(store, a_table(store, "/w/other"), "1")

    store.tables.change(table.id, TableChanges(priority=50, queue="vip", owner="carol"), now=NOON + HOUR)
    store.operations.save(claimed, now=NOON, release=True)  # its holder knew the values before

    found = [priority_queue_owner(store, one.id) for one in (plain, own, claimed, running, other)]
    vip, before = (50, "vip", "carol"), (1, "slow", "bob")
    assert found == [vip, (50, "own", "carol"), vip, before, (0, "default", "default")]
    assert store.operations.get(plain.id).updated_at == NOON + HOUR


def test_an_operation_that_is_stored_later_has_what_the_table_has_then(store: Store) -> None:
    table = a_table(store)
    store.tables.change(table.id, TableChanges(priority=50), now=NOON)

    assert a_pending_operation(store, table).priority == 50


def test_a_change_of_something_else_leaves_what_waits_as_it_is(store: Store) -> None:
    table = a_table(store)
    pending = a_pending_operation(store, table)

    store.tables.change(table.id, TableChanges(scheduling=Scheduling.SERVICE, priority=0), now=NOON + HOUR)

    assert store.operations.get(pending.id) == pending


def test_an_operation_that_waits_is_moved(store: Store) -> None:
    pending = a_pending_operation(store)
    moved = store.operations.change(pending.id, OperationChanges(queue="vip"), now=NOON + HOUR, event=MOVED)

    store.tables.change(pending.table, TableChanges(queue="slow", priority=3), now=NOON + HOUR)

    assert moved == replace(pending, queue="vip", updated_at=NOON + HOUR)
    assert priority_queue_owner(store, pending.id) == (3, "vip", "default")
    assert [one.event.message for one in store.events.list(operation=pending.id).items] == ["changed by ann"]


def test_what_an_engine_has_is_not_moved(store: Store) -> None:
    running = a_running_operation(store)

    with pytest.raises(Conflict, match="is running"):
        store.operations.change(running.id, OperationChanges(queue="vip"), now=NOON, event=MOVED)

    assert store.operations.get(running.id) == running
    assert store.events.list(operation=running.id).items == []


def test_what_waits_is_dropped_with_its_action(store: Store) -> None:
    table = a_table(store, action_types=frozenset({COMPACTION, CLEAN}))
    waits, other = a_pending_operation(store, table, "1"), a_pending_operation(store, table, "2", {"action": CLEAN})
    claimed = a_claimed_operation(store, table, "3")
    elsewhere = a_pending_operation(store, a_table(store, "/w/other"), "1")

    store.tables.change(table.id, TableChanges(action_types=frozenset({CLEAN})), now=NOON + SECOND)

    dropped = store.operations.get(waits.id)
    assert (dropped.status, dropped.reason) == (Status.DROPPED, taken_off(COMPACTION))
    assert (dropped.finished_at, dropped.lease, dropped.is_deleted) == (NOON + SECOND, None, False)
    assert [one.event.kind for one in store.events.list(operation=waits.id).items] == ["operation.dropped"]
    assert [store.operations.get(one.id) for one in (other, claimed, elsewhere)] == [other, claimed, elsewhere]
    reopened = store.operations.reopen(dropped.reopened(at=NOON, reason="again"), now=NOON, event=AGAIN)
    assert reopened.status is Status.PENDING
