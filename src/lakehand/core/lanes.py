# SPDX-License-Identifier: Apache-2.0
"""Lanes: threads for calls into plugins, apart from each other: a call that hangs is left and stops nobody else."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import NamedTuple

from lakehand.core import seats
from lakehand.core.seats import Call, CallLeft

log = logging.getLogger(__name__)
LEAST_ROOM, SOON = 200, 20.0  # so many tasks may wait on any lane, or as many as it does in so many seconds
GROWS_EVERY, LONG = 0.02, 0.25  # seconds: how often a lane may get a thread, and how long tasks should wait at most
IDLE = 60.0  # seconds after which a thread that nobody needs ends


class Task(NamedTuple):
    run: Callable[[], None]
    left: Callable[[str], None]  # told why, when the task is given up


class Worker:
    """A thread of a lane, and what it does."""

    __slots__ = ("seat", "task")

    def __init__(self) -> None:
        self.seat = seats.here()
        self.task: Task | None = None


class Lane:
    """So many threads for one kind of task. A thread that is left is replaced; it ends when its call comes back.

    Threads are daemons: whatever hangs does not keep the service from ending.
    """

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.width = width
        self.unfinished = 0  # tasks that wait or run; those that were left do not count
        self.done = 0  # since it was last idle
        self._busy_since = self._grown_at = 0.0
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._workers: set[Worker] = set()

    def post(self, tasks: Sequence[Task]) -> None:
        with self._lock:
            is_idle = self.unfinished == 0
            if is_idle:
                self.done, self._busy_since = 0, time.monotonic()
            self.unfinished += len(tasks)
            for task in tasks:
                self._tasks.put(task)
            if self._threads == 0 or not is_idle:
                self._grow()

    def _grow(self) -> None:
        """One more thread. More than needed only wait for each other: Python runs one of them at a time."""
        if self._threads < min(self.width, self.unfinished):
            self._start()

    def _start(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=self.name, daemon=True).start()

    def _work(self) -> None:
        worker = Worker()
        with self._lock:
            self._workers.add(worker)
        with suppress(CallLeft):
            while not worker.seat.is_left and self._take(worker):
                pass
        with self._lock:
            self._workers.discard(worker)

    def _take(self, worker: Worker) -> bool:
        """Do one task. False when it is time to end."""
        try:
            task = self._tasks.get(timeout=IDLE)
        except Empty:
            return not self._ends()
        if task is None:
            return False
        worker.task = task
        try:
            task.run()
        except CallLeft:
            log.info("a call that nobody waited for has ended", extra={"lane": self.name})
        except BaseException:
            log.exception("a task failed", extra={"lane": self.name})
        self._finish(worker)
        return True

    def _ends(self) -> bool:
        with self._lock:
            if not self._tasks.empty():
                return False
            self._threads -= 1
            return True

    def _finish(self, worker: Worker) -> None:
        with self._lock:
            worker.task = None
            if not worker.seat.is_left:
                self.unfinished -= 1
                self.done += 1
                if self._threads < self.width and self.unfinished > self._threads:
                    self._grow_if_slow()

    def _grow_if_slow(self) -> None:
        """At the pace of the tasks so far those that wait would take long."""
        now = time.monotonic()
        took = now - max(self._busy_since, self._grown_at)
        if took > GROWS_EVERY and self.unfinished * (now - self._busy_since) > self.done * LONG:
            self._grown_at = now
            self._grow()

    def check(self, patience: float, now: float) -> None:
        """Leave the calls that take too long, and put other threads in their place."""
        with self._lock:
            self._grow()
        for worker in list(self._workers):
            call = worker.seat.overdue(patience, now)
            if call is not None:
                self._leave(worker, call)

    def _leave(self, worker: Worker, call: Call) -> None:
        with self._lock:
            task = worker.task
            if task is None or not worker.seat.leave(call):
                return
            self.unfinished -= 1
            self._threads -= 1
            if self.unfinished > self._threads:
                self._start()
        why = why_left(call)
        log.warning("a call was left", extra={"lane": self.name, "reason": why})
        task.left(why)

    def close(self) -> None:
        """Forget what waits; the threads end after what they do now."""
        with self._lock, suppress(Empty):
            while True:
                self.unfinished -= self._tasks.get_nowait() is not None
        for _ in range(self._threads):
            self._tasks.put(None)

    @property
    def is_idle(self) -> bool:
        return self.unfinished == 0

    @property
    def has_room(self) -> bool:
        """Whether another task would have its turn soon, at the pace of those before it."""
        pace = self.done / max(time.monotonic() - self._busy_since, 1.0)
        return self.unfinished < max(LEAST_ROOM, pace * SOON)


def why_left(call: Call) -> str:
    name = call.plugin.name if call.plugin else "Lakehand"
    return f"{name}.{call.method} had not come back after {time.monotonic() - call.since:.0f} s"


@dataclass(kw_only=True)
class Lanes:
    """Lanes of one purpose, one for each name, made when they are needed."""

    purpose: str
    width: int
    patience: float  # seconds for one call into a plugin
    _lanes: dict[str, Lane] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, name: str, run: Callable[[], None], left: Callable[[str], None]) -> None:
        """Have it run on the lane of that name. ``left`` is called, in another thread, if it is given up."""
        self.post_all(name, [Task(run, left)])

    def post_all(self, name: str, tasks: Sequence[Task]) -> None:
        self._lane(name).post(tasks)

    def has_room(self, name: str) -> bool:
        lane = self._lanes.get(name)
        return lane is None or lane.has_room

    def busy(self) -> frozenset[str]:
        return frozenset(name for name, lane in list(self._lanes.items()) if lane.unfinished)

    def check(self, now: float | None = None) -> None:
        """Called every second or so. ``now`` is a moment of the monotonic clock."""
        for lane in list(self._lanes.values()):
            lane.check(self.patience, time.monotonic() if now is None else now)

    def close(self, patience: float = 10.0) -> None:
        """Let the threads end; wait for those that work, but not for those that hang."""
        deadline = time.monotonic() + patience
        for lane in self._lanes.values():
            lane.close()
        while any(not lane.is_idle for lane in self._lanes.values()) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            with self._lock:
                lane = self._lanes.setdefault(name, Lane(f"{self.purpose}:{name}", self.width))
        return lane
