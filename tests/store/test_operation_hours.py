# SPDX-License-Identifier: Apache-2.0
"""What operations did is counted when they end: once, in the hour of the end, in the same transaction."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakehand.domain.errors import LeaseLost
from lakehand.domain.events import Event
from lakehand.domain.fleet import OperationCounts
from lakehand.domain.operations import AttemptEnd, Handle, Operation, Status
from lakehand.store import SqlStore
from tests.store.given import (
    CLUSTERING,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    a_claimed_operation,
    a_finished_operation,
    a_pending_operation,
    a_running_operation,
    a_table,
    an_attempt,
)

END = NOON + 10 * MINUTE
ENDS = [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DROPPED]
CANCEL = Event(kind="operation.cancel-requested", message="canceled by ann")


def ran(store: SqlStore, table_name: str = "orders", **values: Any) -> Operation:
    """Due at noon, submitted a minute later, started after two."""
    running = a_running_operation(store, a_table(store, f"/w/{table_name}"))
    times: dict[str, Any] = {
        "submitted_at": NOON + MINUTE,
        "started_at": NOON + 2 * MINUTE,
        "handle": Handle("h-1"),
        "run_times": 1,
    }
    return store.operations.save(replace(running, **(times | values)), now=NOON, attempt=an_attempt(running, "h-1"))


def end(store: SqlStore, operation: Operation, status: Status, at: datetime = END, **values: Any) -> Operation:
    moved = replace(operation.moved_to(status, at=at, reason="over"), **values)
    ended = AttemptEnd(handle=Handle("h-1"), at=at, outcome=str(status))
    return store.operations.save(moved, now=at, ended=ended, release=True)


def counts(store: SqlStore, since: datetime = NOON) -> list[OperationCounts]:
    return list(store.fleet.counts(since=since))


@pytest.mark.parametrize("status", ENDS)
def test_an_operation_is_counted_when_it_ends(store: SqlStore, status: Status) -> None:
    result = {"files_removed": 120, "bytes_rewritten": 2**40, "rows": 7}

    end(store, ran(store, run_times=3), status, result=result)

    assert counts(store) == [
        OperationCounts(
            hour=NOON, status=str(status), operations=1, attempts=3, files_removed=120, bytes_rewritten=2**40,
            wait=MINUTE, run=8 * MINUTE,
        )
    ]  # fmt: skip


def test_counts_of_one_hour_are_added_up_and_hours_are_apart(store: SqlStore) -> None:
    for number, at in enumerate((END, END + SECOND, NOON + HOUR)):
        end(store, ran(store, f"t{number}"), Status.SUCCEEDED, at, result={"files_removed": 5})

    assert [(one.hour, one.operations, one.files_removed) for one in counts(store)] == [
        (NOON, 2, 10),
        (NOON + HOUR, 1, 5),
    ]
    assert [one.hour for one in counts(store, since=NOON + MINUTE)] == [NOON + HOUR]


@pytest.mark.parametrize("result", [{}, {"files_removed": "12"}, {"files_removed": True}, {"files_removed": -4}])
def test_what_is_no_count_counts_nothing(store: SqlStore, result: dict[str, Any]) -> None:
    end(store, ran(store), Status.SUCCEEDED, result=result)

    assert [(one.operations, one.files_removed) for one in counts(store)] == [(1, 0)]


def test_absurd_numbers_of_jobs_do_not_overflow(store: SqlStore) -> None:
    for number in range(3):
        end(store, ran(store, f"t{number}"), Status.SUCCEEDED, result={"bytes_rewritten": 10**30})

    assert counts(store)[0].bytes_rewritten == 3 * 2**53


def test_an_attempt_that_is_followed_by_another_is_counted_as_retried(store: SqlStore) -> None:
    running = ran(store)

    end(store, running, Status.PENDING)

    assert counts(store) == [
        OperationCounts(hour=NOON, status="retried", operations=1, attempts=1, run=8 * MINUTE),
    ]


def test_an_operation_that_is_put_back_before_its_attempt_is_not_counted(store: SqlStore) -> None:
    store.operations.save(a_claimed_operation(store), now=NOON, release=True)

    assert counts(store) == []


def test_one_that_ends_without_an_attempt_has_waited_and_not_run(store: SqlStore) -> None:
    claimed = a_claimed_operation(store)
    stale = replace(claimed, submitted_at=NOON - HOUR, started_at=NOON - HOUR, run_times=1)

    store.operations.save(stale.moved_to(Status.DROPPED, at=END, reason="gone"), now=END)

    assert [(one.status, one.wait, one.run) for one in counts(store)] == [("dropped", 10 * MINUTE, timedelta())]


def test_a_retry_that_ends_because_it_was_canceled_is_counted_once(store: SqlStore) -> None:
    running = ran(store)
    store.operations.request_cancel(running.id, now=NOON, event=CANCEL)

    assert end(store, running, Status.PENDING).status is Status.CANCELED

    assert [(one.status, one.operations, one.attempts) for one in counts(store)] == [("canceled", 1, 1)]


def test_a_waiting_operation_that_is_canceled_is_counted(store: SqlStore) -> None:
    pending = a_pending_operation(store)

    for _ in range(2):
        store.operations.request_cancel(pending.id, now=END, event=CANCEL)

    assert [(one.status, one.operations, one.wait) for one in counts(store)] == [("canceled", 1, 10 * MINUTE)]


def test_waiting_operations_of_a_removed_table_are_counted_together(store: SqlStore) -> None:
    table = a_table(store)
    for number in range(3):
        a_pending_operation(store, table, f"2026010100000000{number}")
    a_pending_operation(store, table, "20260101000000009", of={"action": CLUSTERING})

    for _ in range(2):
        store.operations.end_waiting(table.id, now=END, reason="removed", limit=10)

    assert [(one.status, one.operations, one.wait) for one in counts(store)] == [("canceled", 4, 40 * MINUTE)]


def test_a_late_holder_counts_nothing(store: SqlStore) -> None:
    running = ran(store)
    end(store, running, Status.SUCCEEDED)

    with pytest.raises(LeaseLost):
        end(store, running, Status.FAILED)

    assert [one.status for one in counts(store)] == ["succeeded"]


def test_an_end_that_is_not_stored_is_not_counted(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    running = ran(store)
    real: Callable[..., None] = store.operations.hours.count

    def broken(*given: Any) -> None:
        real(*given)
        raise ZeroDivisionError

    monkeypatch.setattr(type(store.operations.hours), "count", lambda _self, *given: broken(*given))
    with pytest.raises(ZeroDivisionError):
        end(store, running, Status.SUCCEEDED)

    assert store.operations.get(running.id).status is Status.RUNNING
    assert counts(store) == []


def test_old_counts_are_removed(store: SqlStore) -> None:
    a_finished_operation(store, status=Status.FAILED, at=NOON)
    a_finished_operation(store, a_table(store, "/w/b"), status=Status.FAILED, at=NOON + 2 * HOUR)

    assert store.fleet.remove_counts(before=NOON + HOUR) == 1

    assert [one.hour for one in counts(store)] == [NOON + 2 * HOUR]
