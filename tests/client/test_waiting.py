# SPDX-License-Identifier: Apache-2.0
"""Waiting for the end of an operation, and following its log."""

import json
from typing import Any

import pytest

from lakehand.client import LakehandClient, OperationFailed, StillRunning
from lakehand.client.operation_calls import wait_for_operation
from lakehand.client.outcomes import NO_RETRIES, Outcome
from lakehand.client.steps import Sleep
from lakehand.domain.operations import Status
from lakehand.domain.processes import Failure
from lakehand.store import SqlStore
from tests.client.engine import end_operation, engine_at_work
from tests.rest.parts import LOCATION


@pytest.fixture
def operation(client: LakehandClient) -> int:
    client.tables.add(LOCATION)
    return client.operations.submit("trips", "compaction").id


def test_an_operation_that_ends_later_is_waited_for(client: LakehandClient, store: SqlStore, operation: int) -> None:
    with engine_at_work(store):
        result = client.operations.wait(operation, timeout=60, poll=0.01)

    assert (result.succeeded, result.status, result.why) == (True, "succeeded", "3 files became 1")
    assert result.check().id == operation


def test_a_failed_operation_says_why(client: LakehandClient, store: SqlStore, operation: int) -> None:
    end_operation(store, operation, Status.FAILED, Failure(reason="no-space", message="the disk is full"))

    result = client.operations.wait(operation)

    assert (result.succeeded, result.why) == (False, "the disk is full")
    with pytest.raises(OperationFailed, match=r"operation 1 \(compaction of /data/trips\) failed: the disk is full"):
        result.check()


def test_an_operation_that_was_dropped_has_nothing_left_to_do(
    client: LakehandClient, store: SqlStore, operation: int
) -> None:
    end_operation(store, operation, Status.DROPPED)

    result = client.operations.wait(operation)

    assert not result.succeeded
    assert result.check().status == "dropped"


def test_a_wait_ends_at_its_deadline_with_what_was_last_seen(client: LakehandClient, operation: int) -> None:
    with pytest.raises(StillRunning, match=r"operation 1 is pending after 0.05 s") as late:
        client.operations.wait(operation, timeout=0.05, poll=0.01)

    assert late.value.operation is not None
    assert late.value.operation.status == "pending"


def document(client: LakehandClient, operation: int, **changes: Any) -> bytes:
    return json.dumps({**client.operations.get(operation).raw, **changes}).encode()


def outcome(body: bytes) -> Outcome:
    return Outcome(url="http://service", retries=NO_RETRIES, status=200 if body else None, body=body)


def test_a_wait_asks_less_and_less_often_and_outlasts_an_outage(client: LakehandClient, operation: int) -> None:
    pending, over = document(client, operation), document(client, operation, status="succeeded")
    steps = wait_for_operation(operation, poll=1.0)
    sleeps: list[float] = []
    answers = [pending] * 8 + [b""] * 3
    next(steps)
    for body in answers:
        step = steps.send(outcome(body))
        assert isinstance(step, Sleep)
        sleeps.append(step.seconds)
        next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(outcome(over))

    assert end.value.value.succeeded
    assert sleeps[0] <= 1.0
    assert all(0.8 * 1.5**at <= seconds <= 1.5**at for at, seconds in enumerate(sleeps[:6]))
    assert all(8.0 <= seconds <= 10.0 for seconds in sleeps[6:])


def test_a_service_that_stays_away_is_named_at_the_deadline() -> None:
    steps = wait_for_operation(7, timeout=0.0)
    next(steps)

    with pytest.raises(StillRunning, match="no service answers at http://service"):
        steps.send(Outcome(url="http://service", retries=NO_RETRIES, problem="refused"))


def test_a_log_is_read_to_its_end(client: LakehandClient, store: SqlStore, operation: int) -> None:
    end_operation(store, operation)

    pages = list(client.operations.log(operation))

    assert "".join(page.text for page in pages) == "log of handle-1\n"
    assert (pages[0].attempt, pages[0].engine) == (1, "spark")
