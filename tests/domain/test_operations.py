# SPDX-License-Identifier: Apache-2.0
"""An operation takes legal steps only."""

from dataclasses import replace

import pytest

from lakehand.domain.errors import IllegalStep
from lakehand.domain.operations import LIVE, NEXT, REOPENABLE, UNFINISHED, Status
from tests.domain.words import NOON, an_operation


@pytest.mark.parametrize("status", list(Status))
def test_each_status_is_final_live_or_pending(status: Status) -> None:
    assert [status.is_final, status.is_live, status is Status.PENDING].count(True) == 1


def test_every_unfinished_operation_can_reach_every_end_but_pending_cannot_succeed() -> None:
    ends = {s for s in Status if s.is_final}
    for status in UNFINISHED - {Status.PENDING}:
        assert ends <= NEXT[status]
    assert Status.SUCCEEDED not in NEXT[Status.PENDING]


@pytest.mark.parametrize("status", [s for s in Status if s.is_final])
def test_a_finished_operation_takes_no_step(status: Status) -> None:
    with pytest.raises(IllegalStep, match=f"is {status}"):
        replace(an_operation(), status=status).moved_to(Status.RUNNING, at=NOON, reason="")


def test_an_end_has_a_time_and_a_step_back_has_none() -> None:
    running = replace(an_operation(), status=Status.RUNNING)
    assert running.moved_to(Status.FAILED, at=NOON, reason="x").finished_at == NOON
    assert running.moved_to(Status.PENDING, at=NOON, reason="x").finished_at is None


@pytest.mark.parametrize("status", sorted(REOPENABLE))
def test_reopening_restores_all_attempts(status: Status) -> None:
    ended = replace(an_operation(), status=status, run_times=5, cancel_requested=True, is_deleted=True)
    again = ended.reopened(at=NOON, reason="retried")
    assert (again.status, again.run_times, again.cancel_requested, again.is_deleted) == (
        Status.PENDING,
        0,
        False,
        False,
    )


@pytest.mark.parametrize("status", sorted(LIVE | {Status.SUCCEEDED, Status.PENDING}))
def test_what_runs_or_succeeded_cannot_be_reopened(status: Status) -> None:
    with pytest.raises(IllegalStep):
        replace(an_operation(), status=status).reopened(at=NOON, reason="")
