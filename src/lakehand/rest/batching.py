# SPDX-License-Identifier: Apache-2.0
"""Group commit: letters that arrive while one transaction runs share the next one.

The event loop only collects; one worker thread records. A lone writer never waits for company; after a full batch the
worker gives those whom it has just answered a moment to come back, a part of the time that a transaction takes.
Whoever waits longer than the patience is told so, and what it brought is recorded all the same as soon as the database
answers again.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakehand.domain.errors import LakehandError

log = logging.getLogger(__name__)
MOMENT = 0.5  # of the last transaction's time
LONGEST_MOMENT = 0.005  # seconds

Letter = TypeVar("Letter")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Group(Generic[Letter, Answer]):
    """Letters that one turn of an event loop brought."""

    loop: asyncio.AbstractEventLoop
    letters: list[Letter]
    futures: "list[asyncio.Future[Answer]]"
    timer: asyncio.TimerHandle | None = None
    weight: int = 0


class Batcher(Generic[Letter, Answer]):
    def __init__(
        self,
        record: Callable[[Sequence[Letter]], Sequence[Answer]],
        *,
        sorry: Answer,  # what is answered when nothing can be said in time
        unstored: Answer | None = None,  # what is answered when it is not kept; else the same
        patience: float = 2.0,
        most_waiting: int = 20_000,
        most_together: int = 512,
    ) -> None:
        self._record = record
        self._sorry = sorry
        self._unstored = sorry if unstored is None else unstored
        self._patience = patience
        self._most_waiting = most_waiting
        self._most_together = most_together
        self._open: Group[Letter, Answer] | None = None
        self._waiting = 0  # weight of the letters that no answer was delivered for; touched by the event loop alone
        self._groups: queue.SimpleQueue[Group[Letter, Answer] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._last_size = 1  # of the last batch, and how long it took; touched by the worker alone
        self._last_seconds = 0.0

    def put(self, letter: Letter, *, weight: int = 1) -> "asyncio.Future[Answer]":
        """Hand a letter in; the answer comes when it is recorded, or after the patience. A long one weighs more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        if self._waiting >= self._most_waiting:
            future.set_result(self._unstored)
            return future
        self._waiting += weight
        group = self._open
        if group is None or group.loop is not loop:
            group = self._open = Group(loop, [], [])
            # By then every request that this turn of the loop brought has joined.
            loop.call_soon(self._send, group)
        group.weight += weight
        group.letters.append(letter)
        group.futures.append(future)
        return future

    def close(self, timeout: float = 5.0) -> None:
        """Record what is waiting, then stop."""
        if self._worker is not None:
            self._groups.put(None)
            self._worker.join(timeout)
            self._worker = None

    def _send(self, group: Group[Letter, Answer]) -> None:
        if self._open is group:
            self._open = None
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="intake", daemon=True)
            self._worker.start()
        group.timer = group.loop.call_later(self._patience, self._give_up, group)
        self._groups.put(group)

    def _give_up(self, group: Group[Letter, Answer]) -> None:
        for future in group.futures:
            if not future.done():
                future.set_result(self._sorry)

    def _work(self) -> None:
        while (first := self._groups.get()) is not None:
            groups = self._together(first)
            letters = [letter for group in groups for letter in group.letters]
            began = time.monotonic()
            answers = iter(self._recorded(letters))
            self._last_size, self._last_seconds = len(letters), time.monotonic() - began
            for group in groups:
                own = [next(answers) for _ in group.letters]
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    group.loop.call_soon_threadsafe(self._deliver, group, own)

    def _together(self, first: Group[Letter, Answer]) -> list[Group[Letter, Answer]]:
        groups, size = [first], len(first.letters)
        until = time.monotonic() + min(self._last_seconds * MOMENT, LONGEST_MOMENT)
        while size < self._most_together:
            try:
                group = self._next(until if size < self._last_size else 0.0)
            except queue.Empty:
                break
            if group is None:
                self._groups.put(None)
                break
            groups.append(group)
            size += len(group.letters)
        return groups

    def _next(self, until: float) -> Group[Letter, Answer] | None:
        left = until - time.monotonic()
        return self._groups.get(timeout=left) if left > 0 else self._groups.get_nowait()

    def _recorded(self, letters: Sequence[Letter]) -> Sequence[Answer]:
        """Record them together; where that fails for good, each alone, so that one cannot harm the rest."""
        try:
            return self._record(letters)
        except Exception as error:
            is_passing = isinstance(error, LakehandError) and error.retryable
            said = {"count": len(letters), "cause": f"{type(error).__name__}: {error}"}
            log.warning("notifications were not stored", extra=said, exc_info=not is_passing)
        if is_passing or len(letters) == 1:
            return [self._unstored] * len(letters)
        return [self._recorded([letter])[0] for letter in letters]

    def _deliver(self, group: Group[Letter, Answer], answers: Sequence[Answer]) -> None:
        self._waiting -= group.weight
        if group.timer is not None:
            group.timer.cancel()
        for future, answer in zip(group.futures, answers, strict=True):
            if not future.done():
                future.set_result(answer)
