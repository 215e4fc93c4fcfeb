# SPDX-License-Identifier: Apache-2.0
"""Group commit: requests that arrive during one transaction share the next one.

The event loop only collects; one worker thread records. A lone writer never waits. After a full batch the worker waits
for a fraction of the last transaction's time, so that the writers it has just answered can join the next batch. A
request that waits longer than the timeout gets the timeout answer, and is recorded when the database answers again.
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
WAIT = 0.5  # of the last transaction's time
LONGEST_WAIT = 0.005  # seconds

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Group(Generic[Request, Answer]):
    """Requests that one turn of an event loop brought."""

    loop: asyncio.AbstractEventLoop
    requests: list[Request]
    futures: "list[asyncio.Future[Answer]]"
    timer: asyncio.TimerHandle | None = None
    weight: int = 0


class GroupCommit(Generic[Request, Answer]):
    def __init__(
        self,
        record: Callable[[Sequence[Request]], Sequence[Answer]],
        *,
        timeout_answer: Answer,
        unstored_answer: Answer | None = None,  # for a request that is not kept; default: the timeout answer
        timeout: float = 2.0,
        most_waiting: int = 20_000,
        most_together: int = 512,
    ) -> None:
        self._record = record
        self._timeout_answer = timeout_answer
        self._unstored_answer = timeout_answer if unstored_answer is None else unstored_answer
        self._timeout = timeout
        self._most_waiting = most_waiting
        self._most_together = most_together
        self._open: Group[Request, Answer] | None = None
        self._waiting = 0  # weight of the unanswered requests; used by the event loop alone
        self._groups: queue.SimpleQueue[Group[Request, Answer] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._last_size = 1  # of the last batch, and its seconds; used by the worker alone
        self._last_seconds = 0.0

    def put(self, request: Request, *, weight: int = 1) -> "asyncio.Future[Answer]":
        """Add a request; the answer comes when it is recorded, or after the timeout. A long request weighs more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        if self._waiting >= self._most_waiting:
            future.set_result(self._unstored_answer)
            return future
        self._waiting += weight
        group = self._open
        if group is None or group.loop is not loop:
            group = self._open = Group(loop, [], [])
            # Runs after every request of this turn of the loop has joined.
            loop.call_soon(self._send, group)
        group.weight += weight
        group.requests.append(request)
        group.futures.append(future)
        return future

    def close(self, timeout: float = 5.0) -> None:
        """Record what is waiting, then stop."""
        if self._worker is not None:
            self._groups.put(None)
            self._worker.join(timeout)
            self._worker = None

    def _send(self, group: Group[Request, Answer]) -> None:
        if self._open is group:
            self._open = None
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="intake", daemon=True)
            self._worker.start()
        group.timer = group.loop.call_later(self._timeout, self._time_out, group)
        self._groups.put(group)

    def _time_out(self, group: Group[Request, Answer]) -> None:
        for future in group.futures:
            if not future.done():
                future.set_result(self._timeout_answer)

    def _work(self) -> None:
        while (first := self._groups.get()) is not None:
            groups = self._batch(first)
            requests = [request for group in groups for request in group.requests]
            began = time.monotonic()
            answers = iter(self._record_safely(requests))
            self._last_size, self._last_seconds = len(requests), time.monotonic() - began
            for group in groups:
                own = [next(answers) for _ in group.requests]
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    group.loop.call_soon_threadsafe(self._deliver, group, own)

    def _batch(self, first: Group[Request, Answer]) -> list[Group[Request, Answer]]:
        groups, size = [first], len(first.requests)
        until = time.monotonic() + min(self._last_seconds * WAIT, LONGEST_WAIT)
        while size < self._most_together:
            try:
                group = self._next(until if size < self._last_size else 0.0)
            except queue.Empty:
                break
            if group is None:
                self._groups.put(None)
                break
            groups.append(group)
            size += len(group.requests)
        return groups

    def _next(self, until: float) -> Group[Request, Answer] | None:
        left = until - time.monotonic()
        return self._groups.get(timeout=left) if left > 0 else self._groups.get_nowait()

    def _record_safely(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """Record them together; if that fails for good, one by one, so that a bad request harms no other."""
        try:
            return self._record(requests)
        except Exception as error:
            is_temporary = isinstance(error, LakehandError) and error.retryable
            fields = {"count": len(requests), "cause": f"{type(error).__name__}: {error}"}
            log.warning("notifications were not stored", extra=fields, exc_info=not is_temporary)
        if is_temporary or len(requests) == 1:
            return [self._unstored_answer] * len(requests)
        return [self._record_safely([request])[0] for request in requests]

    def _deliver(self, group: Group[Request, Answer], answers: Sequence[Answer]) -> None:
        self._waiting -= group.weight
        if group.timer is not None:
            group.timer.cancel()
        for future, answer in zip(group.futures, answers, strict=True):
            if not future.done():
                future.set_result(answer)
