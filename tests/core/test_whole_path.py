# SPDX-License-Identifier: Apache-2.0
"""From a commit to a verified operation, through the loops."""

from datetime import timedelta

import pytest

from lakehand.api.operations import OperationRequest
from lakehand.domain.operations import Status, taken_off
from lakehand.domain.processes import Failure, Instant, Remedy, TableProcess
from lakehand.spi import EngineState
from tests.core.world import CLEAN, World
from tests.domain.words import COMPACTION
from tests.kit.sentences import Sentences

T1, T2 = "20261115110000000", "20261115110100000"


def test_a_plan_on_the_timeline_is_found_run_and_verified(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)

    world.turn()
    assert world.the_operation(table).status is Status.SUBMITTED
    world.engine.says(EngineState.RUNNING, progress={"phase": "compacting"})
    world.turn()
    assert world.the_operation(table).status is Status.RUNNING
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.turn()

    done = world.the_operation(table)
    assert (done.status, done.run_times, done.result["files"], done.lease) == (Status.SUCCEEDED, 1, 1, None)
    [attempt] = world.store.operations.attempts(done.id)
    assert attempt.outcome == "succeeded"


def test_a_job_that_says_done_without_effect_has_failed_and_is_tried_again(world: World, sentences: Sentences) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.engine.says(EngineState.SUCCEEDED)
    world.turn()

    again = world.the_operation(table)
    assert (again.status, again.failure and again.failure.reason) == (Status.PENDING, "no-effect")
    assert again.not_before > world.clock.now()
    sentences.check("no effect, and another attempt", again.reason, next=f"{again.not_before:%H:%M:%S} UTC")


def test_a_job_that_failed_after_its_commit_has_succeeded(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.LOST)
    world.turn()
    assert world.the_operation(table).status is Status.SUCCEEDED


def test_tries_are_used_up_and_then_it_fails_with_the_reason(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    for _ in range(3):
        world.turn()
        world.engine.says(EngineState.FAILED, error_class="Boom", message="disk full")
        world.turn()
        world.clock.pass_by(hours=2)

    failed = world.the_operation(table)
    assert (failed.status, failed.run_times) == (Status.FAILED, 3)
    assert "disk full" in failed.reason
    assert failed.failure is not None
    assert failed.failure.remedy is Remedy.RETRY


def test_what_blocks_a_writer_is_tried_again_at_once_when_its_engine_died_and_only_the_first_time(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    blocking = TableProcess(action=COMPACTION, instant=Instant(T1), urgent=True)
    world.factory.says[COMPACTION] = lambda _: blocking
    waits: list[float] = []
    for _ in range(2):
        world.turn()
        world.engine.says(EngineState.LOST)
        world.turn()
        waits.append((world.the_operation(table).not_before - world.clock.now()).total_seconds())
        world.clock.pass_by(hours=1)

    assert waits[0] <= 2
    assert waits[1] >= 30


def test_an_unreadable_table_makes_it_unknown_never_failed(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.tables.broken.add(table.location)
    world.engine.says(EngineState.LOST)
    world.turn()
    assert world.the_operation(table).status is Status.UNKNOWN

    world.tables.broken.clear()
    world.tables.complete(table.location, T1)
    world.restart()
    world.turn()
    world.turn()
    assert world.the_operation(table).status is Status.SUCCEEDED


def test_a_plan_that_vanished_before_its_run_is_dropped_with_the_reason(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    world.tables.plans[table.location].clear()
    world.dispatcher.run_once()
    dropped = world.the_operation(table)
    assert (dropped.status, dropped.reason) == (Status.DROPPED, "the plan is gone from the timeline")


def test_all_plans_of_a_table_are_stored_and_run_one_after_the_other(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.tables.plan(table.location, T2)
    for _ in range(3):
        world.turn()
    assert sorted(o.status for o in world.store.operations.of_table(table.id, recent=9)) == ["pending", "submitted"]
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.turn()
    world.turn()
    assert sorted(o.status for o in world.store.operations.of_table(table.id, recent=9)) == ["submitted", "succeeded"]


def test_cancel_stops_a_running_operation_and_nothing_starts_it_again(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    operation = world.the_operation(table)
    world.operations.end(operation.id, by="ann")
    world.turn()
    assert world.the_operation(table).status is Status.CANCELING
    assert world.engine.canceled == [operation.handle]
    world.engine.says(EngineState.CANCELED)
    world.turn()
    world.turn()
    assert world.the_operation(table).status is Status.CANCELED


def test_a_cancel_that_comes_too_late_tells_the_truth(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.operations.end(world.the_operation(table).id, by="ann")
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.CANCELED)
    world.turn()
    assert world.the_operation(table).status is Status.SUCCEEDED


def test_an_operator_retries_a_canceled_operation(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.coordinator.run_once()
    canceled = world.operations.end(world.the_operation(table).id, by="ann")
    assert world.the_operation(table).status is Status.CANCELED
    world.operations.reopen(canceled.id, by="ann")
    world.turn()
    assert world.the_operation(table).status is Status.SUBMITTED


def test_a_plan_that_was_submitted_early_is_taken_up_when_it_appears(world: World) -> None:
    table = world.add_table()
    world.operations.add(table, OperationRequest(action=COMPACTION, instant=T1), by="api")
    world.turn()
    assert world.the_operation(table).status is Status.DROPPED
    world.tables.plan(table.location, T1)
    world.clock.pass_by(minutes=10)
    world.turn()
    assert world.the_operation(table).status is Status.SUBMITTED


def test_a_dropped_operation_of_another_action_is_not_taken_for_the_plan(world: World) -> None:
    table = world.add_table(action_types=frozenset({COMPACTION, CLEAN}))
    world.operations.add(table, OperationRequest(action=CLEAN, instant=T1), by="api")
    world.turn()
    assert world.the_operation(table).status is Status.DROPPED
    world.tables.plan(table.location, T1)
    world.clock.pass_by(minutes=10)
    world.turn()
    assert (world.the_operation(table).process.action, world.the_operation(table).status) == (CLEAN, Status.DROPPED)


def test_what_must_not_run_fails_at_once_and_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    stale = Failure(reason="stale", message="running it would lose rows", remedy=Remedy.FATAL)
    monkeypatch.setattr(world.factory, "admit", lambda *_: stale)
    world.turn()
    failed = world.the_operation(table)
    assert (failed.status, failed.reason, failed.failure) == (Status.FAILED, "running it would lose rows", stale)
    assert world.engine.works == {}


def test_success_after_a_failed_attempt_shows_that_failure_only_in_its_attempt(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.turn()
    world.engine.says(EngineState.FAILED, error_class="Boom", message="disk full")
    world.monitor.run_once()
    assert world.the_operation(table).failure is not None
    world.clock.pass_by(minutes=2)
    world.turn()
    world.tables.complete(table.location, T1)
    world.engine.says(EngineState.SUCCEEDED)
    world.monitor.run_once()
    done = world.the_operation(table)
    assert (done.status, done.failure) == (Status.SUCCEEDED, None)
    first, second = world.store.operations.attempts(done.id)
    assert (first.outcome, first.failure and first.failure.reason) == ("failed", "Boom")
    assert (second.outcome, second.failure) == ("succeeded", None)


def test_submission_time_counts_from_when_the_attempt_was_due(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.look()
    world.clock.pass_by(seconds=3)
    world.turn()
    world.engine.says(EngineState.FAILED, error_class="Boom", message="disk full")
    world.monitor.run_once()
    world.clock.at = world.the_operation(table).not_before
    world.clock.pass_by(seconds=5)
    world.turn()

    assert world.metrics.named("submitted") == [(COMPACTION, timedelta(seconds=waited)) for waited in (3, 5)]


def test_a_submission_that_the_engine_refused_is_observed_when_it_takes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the spool folder is full")

    table = world.add_table()
    world.tables.plan(table.location, T1)
    with monkeypatch.context() as patch:
        patch.setattr(world.engine, "submit", refuse)
        world.look()
        world.dispatcher.run_once()
    assert world.the_operation(table).status is Status.SUBMITTED
    assert world.metrics.named("submitted") == []

    world.clock.pass_by(seconds=10)
    world.monitor.run_once()

    assert world.metrics.named("submitted") == [(COMPACTION, timedelta(seconds=10))]


def test_an_operation_without_retries_has_one_attempt(world: World) -> None:
    table = world.add_table()
    world.tables.plan(table.location, T1)
    world.operations.add(table, OperationRequest(action=COMPACTION, instant=T1, retry_on_error=False), by="ann")
    world.turn()
    world.engine.says(EngineState.FAILED, error_class="Boom", message="disk full")
    world.monitor.run_once()

    failed = world.the_operation(table)
    assert (failed.status, failed.run_times) == (Status.FAILED, 1)
    again = world.operations.reopen(failed.id, by="ann")
    assert (again.status, again.retry_on_error) == (Status.PENDING, False)


def test_an_action_that_is_taken_off_its_table_does_not_run_until_it_is_back(world: World) -> None:
    table = world.add_table(action_types=frozenset({COMPACTION, CLEAN}))
    world.tables.plan(table.location, T1)
    world.look()

    world.change(table, action_types=["-compaction"])
    world.turn()
    dropped = world.the_operation(table)
    assert (dropped.status, dropped.reason) == (Status.DROPPED, taken_off(COMPACTION))
    assert world.engine.works == {}

    world.change(table, action_types=["+compaction"])
    world.turn()
    again = world.the_operation(table)
    assert (again.id, again.status) == (dropped.id, Status.SUBMITTED)


def test_what_is_retried_after_its_action_was_taken_off_is_dropped_at_its_admission(world: World) -> None:
    table = world.add_table(action_types=frozenset({COMPACTION, CLEAN}))
    world.tables.plan(table.location, T1)
    world.look()
    world.change(table, action_types=["-compaction"])

    world.operations.reopen(world.the_operation(table).id, by="ann")
    world.turn()

    dropped = world.the_operation(table)
    assert (dropped.status, dropped.reason) == (Status.DROPPED, taken_off(COMPACTION))
    assert world.engine.works == {}
