# SPDX-License-Identifier: Apache-2.0
"""Group commit: who shares a transaction, who is told what, and what happens when the recorder fails or hangs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from lakehand.domain.errors import Unavailable
from lakehand.rest.batching import Batcher

SORRY = "sorry"
Make = Callable[..., Batcher[int, str]]


class Recorder:
    """Remembers its batches; waits at the gate, and fails where it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.poison: set[int] = set()
        self.error: Exception = ValueError("poison")

    def __call__(self, letters: Sequence[int]) -> Sequence[str]:
        self.gate.wait(30)
        self.batches.append(list(letters))
        if self.poison & set(letters):
            raise self.error
        return [f"stored {letter}" for letter in letters]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def make(recorder: Recorder) -> Iterator[Make]:
    made: list[Batcher[int, str]] = []

    def batcher(**options: float) -> Batcher[int, str]:
        made.append(Batcher(recorder, sorry=SORRY, **options))  # type: ignore[arg-type]
        return made[-1]

    yield batcher
    recorder.gate.set()
    for one in made:
        one.close()


def run(work: Awaitable[list[str]]) -> list[str]:
    async def whole() -> list[str]:
        return await work

    return asyncio.run(whole())


async def all_of(batcher: Batcher[int, str], letters: Sequence[int]) -> list[str]:
    return list(await asyncio.gather(*(batcher.put(letter) for letter in letters)))


def test_letters_of_one_turn_share_a_transaction_and_keep_their_answers(make: Make, recorder: Recorder) -> None:
    answers = run(all_of(make(), range(100)))

    assert answers == [f"stored {n}" for n in range(100)]
    assert recorder.batches == [list(range(100))]


def test_what_arrives_during_a_transaction_shares_the_next_one(make: Make, recorder: Recorder) -> None:
    batcher = make()
    recorder.gate.clear()

    async def story() -> list[str]:
        first = asyncio.ensure_future(batcher.put(0))
        later = []
        for letter in range(1, 6):
            await asyncio.sleep(0.01)  # turns of the loop in which the worker is stuck
            later.append(asyncio.ensure_future(batcher.put(letter)))
        await asyncio.sleep(0.01)
        recorder.gate.set()
        return [await first, *[await one for one in later]]

    assert run(story()) == [f"stored {n}" for n in range(6)]
    assert recorder.batches[-1][-1] == 5
    assert len(recorder.batches) == 2


def test_a_batch_has_a_bound(make: Make, recorder: Recorder) -> None:
    batcher = make(most_together=10)
    recorder.gate.clear()

    async def story() -> list[str]:
        waiting = []
        for letter in range(40):
            waiting.append(asyncio.ensure_future(batcher.put(letter)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        recorder.gate.set()
        return [await one for one in waiting]

    assert run(story())[-1] == "stored 39"
    assert max(len(batch) for batch in recorder.batches) <= 10


def test_one_bad_letter_harms_no_other(make: Make, recorder: Recorder) -> None:
    recorder.poison = {2}

    assert run(all_of(make(), range(4))) == ["stored 0", "stored 1", SORRY, "stored 3"]


def test_a_database_that_is_away_is_not_asked_once_for_each(make: Make, recorder: Recorder) -> None:
    recorder.poison, recorder.error = {0}, Unavailable()

    assert run(all_of(make(), range(50))) == [SORRY] * 50
    assert len(recorder.batches) == 1


def test_who_waits_too_long_is_told_and_recorded_later(make: Make, recorder: Recorder) -> None:
    batcher = make(patience=0.05)
    recorder.gate.clear()

    assert run(all_of(batcher, [1, 2])) == [SORRY, SORRY]

    recorder.gate.set()
    batcher.close()
    assert recorder.batches == [[1, 2]]


def test_a_crowd_beyond_the_bound_is_turned_away_at_once(make: Make, recorder: Recorder) -> None:
    batcher = make(most_waiting=3, patience=5.0)
    recorder.gate.clear()

    async def story() -> list[str]:
        inside = [asyncio.ensure_future(batcher.put(n)) for n in range(3)]
        turned_away = await batcher.put(99)
        recorder.gate.set()
        return [turned_away, *[await one for one in inside], await batcher.put(4)]

    assert run(story()) == [SORRY, "stored 0", "stored 1", "stored 2", "stored 4"]


def test_closing_records_what_is_waiting(make: Make, recorder: Recorder) -> None:
    batcher = make(patience=0.01)
    recorder.gate.clear()
    run(all_of(batcher, [1]))
    recorder.gate.set()

    batcher.close()

    assert recorder.batches == [[1]]
