# SPDX-License-Identifier: Apache-2.0
"""A loop runs its step, sooner when it is rung, and outlives every error."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakehand.core.loops.loop import Loop
from tests.core.world import Counting

TIMEOUT = 30.0


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], bool]], Loop]]:
    loops: list[Loop] = []

    def started(step: Callable[[], bool]) -> Loop:
        metrics: Any = Counting()
        loops.append(Loop(name="a", run_once=step, pause=lambda: 3600.0, metrics=metrics))
        loops[-1].start()
        return loops[-1]

    yield started
    for loop in loops:
        loop.stop()


def test_a_loop_runs_until_there_is_no_more_and_then_when_it_is_rung(
    start: Callable[[Callable[[], bool]], Loop],
) -> None:
    turns = threading.Semaphore(0)
    answers = iter([True, True, False, False])

    def step() -> bool:
        turns.release()
        return next(answers)

    loop = start(step)
    assert all(turns.acquire(timeout=TIMEOUT) for _ in range(3))
    assert not turns.acquire(blocking=False)
    loop.wake()
    assert turns.acquire(timeout=TIMEOUT)


def test_an_error_ends_the_turn_and_never_the_loop(start: Callable[[Callable[[], bool]], Loop]) -> None:
    turns = threading.Semaphore(0)

    def step() -> bool:
        turns.release()
        raise ValueError("on purpose")

    loop = start(step)
    assert turns.acquire(timeout=TIMEOUT)
    loop.wake()
    assert turns.acquire(timeout=TIMEOUT)
