# SPDX-License-Identifier: Apache-2.0
"""Back-off grows, ends, and "not yet" costs no attempt."""

from datetime import timedelta

import pytest

from lakehand.domain.processes import Failure, Remedy, RetryPolicy, back_off

POLICY = RetryPolicy(max_attempts=3, first_delay=timedelta(seconds=10), longest_delay=timedelta(seconds=60))


def delay(remedy: Remedy, run_times: int, deferrals: int = 0, random: float = 0.0) -> timedelta | None:
    failure = Failure(reason="x", message="x", remedy=remedy)
    return POLICY.delay(failure, run_times=run_times, deferrals=deferrals, random=random)


def test_the_wait_doubles_until_the_attempts_are_used_up() -> None:
    assert [delay(Remedy.RETRY, n) for n in (1, 2, 3)] == [timedelta(seconds=10), timedelta(seconds=20), None]


def test_jitter_spreads_the_attempts() -> None:
    assert delay(Remedy.RETRY, 1, random=0.5) == timedelta(seconds=11)


def test_a_fatal_failure_is_not_retried() -> None:
    assert delay(Remedy.FATAL, 1) is None


def test_not_yet_uses_up_no_attempt() -> None:
    assert delay(Remedy.NOT_YET, run_times=40, deferrals=39) == timedelta(seconds=30)
    assert delay(Remedy.RETRY, run_times=41, deferrals=40) == timedelta(seconds=10)


def test_deferrals_are_limited() -> None:
    assert delay(Remedy.NOT_YET, run_times=121, deferrals=120) is None


@pytest.mark.parametrize("run_times", [1, 5, 50, 5000])
def test_no_wait_is_longer_than_the_longest(run_times: int) -> None:
    policy = RetryPolicy(max_attempts=10_000)
    failure = Failure(reason="x", message="x")
    wait = policy.delay(failure, run_times=run_times, deferrals=0, random=0.999)
    assert wait is not None
    assert wait <= policy.longest_delay * 1.2


def test_back_off_begins_with_the_first_pause_and_never_exceeds_the_longest() -> None:
    waits = [back_off(times, first=timedelta(minutes=1), longest=timedelta(hours=1)) for times in (0, 1, 2, 3, 99)]
    assert [wait.total_seconds() for wait in waits] == [60, 60, 120, 240, 3600]


def test_a_back_off_doubles_up_to_its_longest() -> None:
    first, longest = timedelta(minutes=1), timedelta(minutes=30)
    waits = [back_off(count, first=first, longest=longest) for count in (0, 1, 2, 3, 6, 10_000)]
    assert waits == [timedelta(minutes=count) for count in (1, 1, 2, 4, 30, 30)]
