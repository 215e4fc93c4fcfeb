# SPDX-License-Identifier: Apache-2.0
"""A schedule knows its operation that failed for good, until that is dealt with; on every database."""

import pytest

from lakehand.core.ports import Store
from lakehand.domain.events import Event
from lakehand.domain.operations import Operation, OperationId, Status
from lakehand.domain.tables import Table
from tests.store.given import CLEAN, COMPACTION, HOUR, NOON, a_finished_operation, a_running_operation, a_table

WHY = Event(kind="operation.removed", message="removed by ann")


@pytest.fixture
def table(store: Store) -> Table:
    return a_table(store, action_types=frozenset({COMPACTION, CLEAN}))


@pytest.fixture
def failed(store: Store, table: Table) -> Operation:
    return a_finished_operation(store, table, "1", Status.FAILED)


def known_failures(store: Store, table: Table) -> dict[str, OperationId | None]:
    return {str(s.action): s.failed_operation for s in store.schedules.of_table(table.id)}


def test_a_failed_operation_is_known_to_the_schedule_of_its_action_only(
    store: Store, table: Table, failed: Operation
) -> None:
    assert known_failures(store, table) == {"compaction": failed.id, "clean": None}


def test_the_newest_failure_is_known(store: Store, table: Table, failed: Operation) -> None:
    newer = a_finished_operation(store, table, "2", Status.FAILED)
    assert newer.id != failed.id
    assert known_failures(store, table)["compaction"] == newer.id


@pytest.mark.usefixtures("failed")
def test_a_success_of_the_action_ends_it(store: Store, table: Table) -> None:
    a_finished_operation(store, table, "2", Status.SUCCEEDED)
    assert known_failures(store, table)["compaction"] is None


@pytest.mark.parametrize("status", [Status.CANCELED, Status.DROPPED])
def test_an_operation_that_ended_otherwise_does_not(
    store: Store, table: Table, failed: Operation, status: Status
) -> None:
    a_finished_operation(store, table, "2", status)
    assert known_failures(store, table)["compaction"] == failed.id


def test_neither_does_one_that_runs(store: Store, table: Table, failed: Operation) -> None:
    a_running_operation(store, table, "2")
    assert known_failures(store, table)["compaction"] == failed.id


def test_a_retry_ends_it_also_when_that_is_canceled(store: Store, table: Table, failed: Operation) -> None:
    store.operations.reopen(failed.reopened(at=NOON, reason="retried"), now=NOON, event=WHY)
    assert known_failures(store, table)["compaction"] is None

    assert store.operations.request_cancel(failed.id, now=NOON, event=WHY).status is Status.CANCELED
    assert known_failures(store, table)["compaction"] is None


def test_a_person_who_removes_it_has_dealt_with_it(store: Store, table: Table, failed: Operation) -> None:
    store.operations.request_cancel(failed.id, now=NOON, event=WHY)
    assert known_failures(store, table)["compaction"] == failed.id, "it was over: there was nothing to cancel"

    removed = store.operations.request_cancel(failed.id, now=NOON, event=WHY, delete=True)

    assert removed.status is Status.FAILED
    assert known_failures(store, table)["compaction"] is None


def test_a_newer_failure_stays_when_an_older_one_is_removed(store: Store, table: Table, failed: Operation) -> None:
    newer = a_finished_operation(store, table, "2", Status.FAILED)
    store.operations.request_cancel(failed.id, now=NOON, event=WHY, delete=True)
    assert known_failures(store, table)["compaction"] == newer.id


def test_it_is_forgotten_with_the_history(store: Store, table: Table, failed: Operation) -> None:
    assert failed.finished_at == NOON
    assert store.operations.remove_finished(before=NOON + HOUR, limit=10) == 1
    assert known_failures(store, table)["compaction"] is None
