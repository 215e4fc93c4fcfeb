# SPDX-License-Identifier: Apache-2.0
"""Group commit: which requests share a transaction, their answers, and a recorder that fails or hangs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from lakehand.domain.errors import Unavailable
from lakehand.rest.group_commit import GroupCommit

TIMEOUT = "timeout"
Make = Callable[..., GroupCommit[int, str]]


class Recorder:
    """Remembers its batches; waits at the gate, and fails where it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.was_called = threading.Event()
        self.poison: set[int] = set()
        self.error: Exception = ValueError("poison")

    def __call__(self, requests: Sequence[int]) -> Sequence[str]:
        self.was_called.set()
        self.gate.wait(30)
        self.batches.append(list(requests))
        if self.poison & set(requests):
            raise self.error
        return [f"stored {request}" for request in requests]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def make(recorder: Recorder) -> Iterator[Make]:
    made: list[GroupCommit[int, str]] = []

    def group_commit(**options: float) -> GroupCommit[int, str]:
        made.append(GroupCommit(recorder, timeout_answer=TIMEOUT, **options))  # type: ignore[arg-type]
        return made[-1]

    yield group_commit
    recorder.gate.set()
    for one in made:
        one.close()


def run(work: Awaitable[list[str]]) -> list[str]:
    async def whole() -> list[str]:
        return await work

    return asyncio.run(whole())


async def all_of(group_commit: GroupCommit[int, str], requests: Sequence[int]) -> list[str]:
    return list(await asyncio.gather(*(group_commit.put(request) for request in requests)))


def test_requests_of_one_turn_share_a_transaction_and_keep_their_answers(make: Make, recorder: Recorder) -> None:
    answers = run(all_of(make(), range(100)))

    assert answers == [f"stored {n}" for n in range(100)]
    assert recorder.batches == [list(range(100))]


def test_what_arrives_during_a_transaction_shares_the_next_one(make: Make, recorder: Recorder) -> None:
    group_commit = make()
    recorder.gate.clear()

    async def scenario() -> list[str]:
        first = asyncio.ensure_future(group_commit.put(0))
        await asyncio.to_thread(recorder.was_called.wait, 30)
        later = []
        for request in range(1, 6):
            later.append(asyncio.ensure_future(group_commit.put(request)))
            await asyncio.sleep(0)  # turns of the loop in which the worker is stuck
        recorder.gate.set()
        return [await first, *[await one for one in later]]

    assert run(scenario()) == [f"stored {n}" for n in range(6)]
    assert recorder.batches[-1][-1] == 5
    assert len(recorder.batches) == 2


def test_a_batch_has_a_bound(make: Make, recorder: Recorder) -> None:
    group_commit = make(most_together=10)
    recorder.gate.clear()

    async def scenario() -> list[str]:
        waiting = []
        for request in range(40):
            waiting.append(asyncio.ensure_future(group_commit.put(request)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        recorder.gate.set()
        return [await one for one in waiting]

    assert run(scenario())[-1] == "stored 39"
    assert max(len(batch) for batch in recorder.batches) <= 10


def test_one_bad_request_harms_no_other(make: Make, recorder: Recorder) -> None:
    recorder.poison = {2}

    assert run(all_of(make(), range(4))) == ["stored 0", "stored 1", TIMEOUT, "stored 3"]


def test_a_database_that_is_away_is_tried_once_for_the_batch(make: Make, recorder: Recorder) -> None:
    recorder.poison, recorder.error = {0}, Unavailable()

    assert run(all_of(make(), range(50))) == [TIMEOUT] * 50
    assert len(recorder.batches) == 1


def test_a_request_that_waits_too_long_is_answered_and_recorded_later(make: Make, recorder: Recorder) -> None:
    group_commit = make(timeout=0.05)
    recorder.gate.clear()

    assert run(all_of(group_commit, [1, 2])) == [TIMEOUT, TIMEOUT]

    recorder.gate.set()
    group_commit.close()
    assert recorder.batches == [[1, 2]]


def test_requests_beyond_the_bound_are_rejected_at_once(make: Make, recorder: Recorder) -> None:
    group_commit = make(most_waiting=3, timeout=5.0)
    recorder.gate.clear()

    async def scenario() -> list[str]:
        inside = [asyncio.ensure_future(group_commit.put(n)) for n in range(3)]
        rejected = await group_commit.put(99)
        recorder.gate.set()
        return [rejected, *[await one for one in inside], await group_commit.put(4)]

    assert run(scenario()) == [TIMEOUT, "stored 0", "stored 1", "stored 2", "stored 4"]


def test_closing_records_what_is_waiting(make: Make, recorder: Recorder) -> None:
    group_commit = make(timeout=0.01)
    recorder.gate.clear()
    run(all_of(group_commit, [1]))
    recorder.gate.set()

    group_commit.close()

    assert recorder.batches == [[1]]
