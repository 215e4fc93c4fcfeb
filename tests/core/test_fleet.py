# SPDX-License-Identifier: Apache-2.0
"""The fleet as people ask for it, and the loop that records it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakehand.core.loops.cleaning import FleetRecorder
from lakehand.core.services.fleet import DAY, HOUR, WEEK, FleetService, step_of
from lakehand.domain.fleet import POINT_EVERY, OperationHour, QueueState, TableState
from lakehand.domain.operations import AttemptEnd, Handle, Status
from lakehand.observe.metrics import PrometheusMetrics
from lakehand.store import SqlStore
from tests.core.world import PassedClock
from tests.store.given import MINUTE, NOON, a_pending_operation, a_running_operation, a_table


@pytest.fixture
def clock(store: Any) -> PassedClock:
    store.clock = PassedClock(at=NOON)
    return store.clock  # type: ignore[no-any-return]


@pytest.fixture
def fleet(store: SqlStore, clock: PassedClock) -> FleetService:
    return FleetService(store=store)


def ended(store: SqlStore, name: str, status: Status, at: datetime, *, wait: timedelta = MINUTE, **result: int) -> None:
    """Due at noon, submitted after the wait, and started two minutes before its end."""
    running = a_running_operation(store, a_table(store, f"/w/{name}"))
    moved = running.moved_to(status, at=at, reason="over")
    timed = replace(moved, submitted_at=NOON + wait, started_at=at - 2 * MINUTE, run_times=1, result=result)
    end = AttemptEnd(handle=Handle("h-1"), at=at, outcome=str(status))
    store.operations.save(timed, now=at, ended=end, release=True)


def test_what_was_done_is_added_up(store: SqlStore, clock: PassedClock, fleet: FleetService) -> None:
    ended(store, "a", Status.SUCCEEDED, NOON + 5 * MINUTE, files_removed=10, bytes_rewritten=100)
    ended(store, "b", Status.SUCCEEDED, NOON + HOUR, files_removed=5)
    ended(store, "c", Status.FAILED, NOON + HOUR)
    ended(store, "d", Status.DROPPED, NOON + HOUR, wait=HOUR)
    ended(store, "e", Status.PENDING, NOON + HOUR)
    clock.pass_by(hours=2)

    done = fleet.done()

    assert (done.operations, done.succeeded, done.failed, done.attempts) == (4, 2, 1, 4)
    assert (done.files_removed, done.bytes_rewritten, done.success_rate) == (15, 100, 2 / 3)
    assert (done.mean_wait, done.mean_run, done.since) == (MINUTE, 2 * MINUTE, NOON + 2 * HOUR - DAY)


def test_nothing_was_done_yet(fleet: FleetService) -> None:
    done = fleet.done()

    assert (done.operations, done.success_rate, done.mean_wait, done.mean_run) == (0, None, None, None)


def test_what_was_done_before_does_not_count(store: SqlStore, clock: PassedClock, fleet: FleetService) -> None:
    ended(store, "a", Status.SUCCEEDED, NOON)
    clock.pass_by(hours=24, minutes=59)
    assert fleet.done().operations == 1

    clock.pass_by(minutes=1)

    assert fleet.done().operations == 0


def test_every_hour_is_listed_with_what_ended_in_it(store: SqlStore, clock: PassedClock, fleet: FleetService) -> None:
    for number, status in enumerate((Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DROPPED)):
        ended(store, f"t{number}", status, NOON)
    ended(store, "retried", Status.PENDING, NOON + 2 * HOUR)
    clock.pass_by(hours=2, minutes=30)

    assert fleet.operations_by_hour(3 * HOUR) == [
        OperationHour(hour=NOON - HOUR),
        OperationHour(hour=NOON, succeeded=1, failed=1, canceled=1, dropped=1),
        OperationHour(hour=NOON + HOUR),
        OperationHour(hour=NOON + 2 * HOUR, retried=1),
    ]


def test_queues_say_what_waits_and_what_runs(store: SqlStore, fleet: FleetService) -> None:
    a_pending_operation(store, a_table(store, "/w/a"), queue="slow")
    a_running_operation(store, a_table(store, "/w/b"), queue="fast")

    assert fleet.queues() == [
        QueueState(queue="fast", running=1),
        QueueState(queue="slow", waiting=1, oldest=NOON),
    ]


def test_a_trend_has_at_most_some_hundred_points() -> None:
    assert [step_of(span) for span in (DAY, WEEK, 30 * DAY, 365 * DAY, 3650 * DAY)] == [
        POINT_EVERY, HOUR, 6 * HOUR, DAY, DAY,
    ]  # fmt: skip


def test_the_fleet_is_recorded_every_five_minutes(store: SqlStore, clock: PassedClock, fleet: FleetService) -> None:
    recorder = FleetRecorder(store=store, metrics=PrometheusMetrics(), keep_history=timedelta(days=30))
    clock.pass_by(minutes=2)
    for _ in range(12):
        assert recorder.run_once() is False
        clock.pass_by(minutes=1)

    assert [point.at for point in fleet.trend(DAY).total] == [NOON, NOON + 5 * MINUTE, NOON + 10 * MINUTE]


def test_the_recorder_counts_the_tables_in_each_state(store: SqlStore) -> None:
    a_table(store, "/w/a")
    a_table(store, "/w/b")
    metrics = PrometheusMetrics()
    FleetRecorder(store=store, metrics=metrics, keep_history=timedelta(days=30)).run_once()

    counts = {
        str(state): metrics.registry.get_sample_value("lakehand_tables", {"state": state}) for state in TableState
    }
    assert counts == {str(state): 2 if state is TableState.NEW else 0 for state in TableState}


def test_old_points_and_counts_go_with_the_history(store: SqlStore, clock: PassedClock, fleet: FleetService) -> None:
    recorder = FleetRecorder(store=store, metrics=PrometheusMetrics(), keep_history=timedelta(days=3))
    ended(store, "a", Status.SUCCEEDED, NOON)
    for _ in range(3):
        recorder.run_once()
        clock.pass_by(minutes=5)
    clock.pass_by(days=2)
    recorder.run_once()
    assert len(store.fleet.point_times()) == 2  # thinned to one per hour, and the newest

    clock.pass_by(days=2)
    recorder.run_once()

    assert len(store.fleet.point_times()) == 2
    assert store.fleet.counts(since=NOON) == []
