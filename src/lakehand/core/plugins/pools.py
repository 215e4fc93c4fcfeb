# SPDX-License-Identifier: Apache-2.0
"""Worker pools for calls into plugins (bulkheads): a call that misses its deadline is abandoned and stops nobody else.

The thread of an abandoned call is left alone and replaced. When the call returns, its result is thrown away.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, ParamSpec, TypeVar

from lakehand.core.plugins.breakers import CircuitBreaker, utc
from lakehand.domain.errors import LakehandError, PluginBroken

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)
ALLOWED = (OSError, LakehandError)  # what a plugin may raise about a table; anything else is its own fault
LEAST_QUEUE, SOON = 200, 20.0  # tasks that may wait in any pool; more if they start within so many seconds
GROWS_EVERY, LONG = 0.02, 0.25  # seconds between two new threads, and of waiting that justify another one
IDLE = 60.0  # seconds after which an idle thread ends


def no_rest(used: float) -> None:
    """The default: the next task begins at once."""


class CallAbandoned(BaseException):
    """Unwinds the thread of an abandoned call once that returns. No plugin's ``except Exception`` catches it."""


class Call:
    """One call into a plugin, or, without a breaker, back into our own code."""

    __slots__ = ("breaker", "elsewhere", "is_abandoned", "method", "outer", "since", "table")

    def __init__(self, breaker: CircuitBreaker | None, method: str, outer: "Call | None", table: str = "") -> None:
        self.breaker = breaker
        self.method = method
        self.outer = outer
        self.table = table  # the location of the table that it is about, if it is about one
        self.since = time.monotonic()
        self.elsewhere = 0.0  # seconds of it that were spent in inner calls
        self.is_abandoned = False


class CallStack:
    """The calls that one thread is in."""

    __slots__ = ("call", "is_abandoned", "lock")

    def __init__(self) -> None:
        self.call: Call | None = None  # the innermost
        self.is_abandoned = False
        self.lock = threading.Lock()

    def enter(self, breaker: CircuitBreaker | None, method: str, table: str) -> Call:
        """Raises CallAbandoned in a thread that nobody waits for: a late plugin gets nothing more from us."""
        if self.is_abandoned:
            raise CallAbandoned
        if breaker is not None:
            breaker.allow(method, table)
        self.call = Call(breaker, method, self.call, table)
        return self.call

    def leave(self, call: Call) -> None:
        """Raises CallAbandoned where nobody waits for the result any more."""
        with self.lock:
            self.call = call.outer
        seconds = time.monotonic() - call.since
        if call.outer is not None:
            call.outer.elsewhere += seconds
        if call.is_abandoned and call.breaker is not None:
            call.breaker.returned_late(call, call.table)
        if self.is_abandoned:
            raise CallAbandoned
        if call.breaker is not None:
            call.breaker.returned(call.method, seconds - call.elsewhere, call.table)

    def abandon(self, call: Call) -> bool:
        """False if it is over already."""
        with self.lock:
            if self.is_abandoned or not self.contains(call):
                return False
            self.is_abandoned = call.is_abandoned = True
        if call.breaker is not None:
            call.breaker.abandoned(call, call.method, time.monotonic() - call.since, call.table)
        return True

    def contains(self, call: Call) -> bool:
        current = self.call
        while current is not None and current is not call:
            current = current.outer
        return current is not None

    def overdue(self, timeout: float, now: float) -> Call | None:
        """The innermost call if it misses its deadline, or an outer one after twice the time. Never our own code."""
        inner = call = self.call
        if inner is None or inner.breaker is None:
            return None
        if now - inner.since > timeout:
            return inner
        while call is not None:
            if call.breaker is not None and now - call.since > 2 * timeout:
                return call
            call = call.outer
        return None


_thread = threading.local()


def current_stack() -> CallStack:
    stack: CallStack | None = getattr(_thread, "stack", None)
    if stack is None:
        stack = _thread.stack = CallStack()
    return stack


def call_plugin(
    breaker: CircuitBreaker, table: str, method: str, check: Callable[[Any], None], function: Callable[P, T],
    *args: P.args, **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """Call into a plugin and check the result. A fault of the plugin is counted and raised as PluginBroken.

    ``table`` is the location of the table that the call is about, or empty. No error leaves here with a secret of the
    settings in it.
    """
    stack = current_stack()
    call = stack.enter(breaker, method, table)
    try:
        with breaker.masks.hiding():
            result = function(*args, **kwargs)
    except ALLOWED:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and threading.current_thread() is threading.main_thread():
            raise  # this process is being ended
        if not stack.is_abandoned:
            breaker.failed(method, error)
        raise PluginBroken(f"{breaker.name}.{method} failed: {type(error).__name__}: {error}") from error
    finally:
        stack.leave(call)
    try:
        check(result)
    except PluginBroken as error:
        breaker.failed(method, error)
        raise PluginBroken(breaker.masks.hide(f"{breaker.name}.{method} {error}")) from None
    breaker.succeeded(method)
    return result


@contextmanager
def own_code() -> Iterator[None]:
    """Our own code, called by a plugin: its time does not count as the plugin's."""
    stack = current_stack()
    call = stack.enter(None, "", "")
    try:
        yield
    finally:
        stack.leave(call)


class Task(NamedTuple):
    run: Callable[[], None]
    on_abandon: Callable[[str], None]  # called with the reason, in another thread


class WaitGroup:
    """Counts tasks. The count may grow while a task is open, not after all are done."""

    def __init__(self) -> None:
        self._open = 0
        self._lock = threading.Lock()
        self._all_done = threading.Event()
        self._all_done.set()
        self.changes = 0  # tasks that have changed something

    def add(self, count: int = 1) -> None:
        with self._lock:
            self._open += count
            if self._open:
                self._all_done.clear()

    def done(self, *, changed: bool = False) -> None:
        with self._lock:
            self._open -= 1
            self.changes += changed
            if self._open == 0:
                self._all_done.set()

    def wait(self, seconds: float) -> bool:
        """Whether all were done in that time."""
        return self._all_done.wait(seconds)


class Worker:
    """A thread of a pool, and its task."""

    __slots__ = ("stack", "task")

    def __init__(self) -> None:
        self.stack = current_stack()
        self.task: Task | None = None


class WorkerPool:
    """At most ``size`` threads. They are daemons: one that hangs does not keep the service from ending."""

    def __init__(self, name: str, size: int, rest: Callable[[float], None] = no_rest) -> None:
        self.name = name
        self.rest = rest
        self.size = size
        self.unfinished = 0  # tasks that wait or run, without abandoned ones
        self.done = 0  # since it was last idle
        self._busy_since = self._grown_at = 0.0
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._workers: set[Worker] = set()

    def submit(self, tasks: Sequence[Task]) -> None:
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
        """Start one more thread. More than needed only wait for each other: Python runs one at a time."""
        if self._threads < min(self.size, self.unfinished):
            self._start()

    def _start(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=self.name, daemon=True).start()

    def _work(self) -> None:
        worker = Worker()
        with self._lock:
            self._workers.add(worker)
        while not worker.stack.is_abandoned and self._run_next(worker):
            pass
        with self._lock:
            self._workers.discard(worker)

    def _run_next(self, worker: Worker) -> bool:
        """False when the thread should end."""
        try:
            task = self._tasks.get(timeout=IDLE)
        except Empty:
            return not self._retire()
        if task is None:
            return False
        worker.task, began = task, time.thread_time()
        try:
            task.run()
        except CallAbandoned:
            log.info("an abandoned call has ended", extra={"pool": self.name})
        except BaseException:
            log.exception("a task failed", extra={"pool": self.name})
        self._finish(worker)
        self.rest(time.thread_time() - began)
        return True

    def _retire(self) -> bool:
        with self._lock:
            if not self._tasks.empty():
                return False
            self._threads -= 1
            return True

    def _finish(self, worker: Worker) -> None:
        with self._lock:
            worker.task = None
            if not worker.stack.is_abandoned:
                self.unfinished -= 1
                self.done += 1
                if self._threads < self.size and self.unfinished > self._threads:
                    self._grow_if_slow()

    def _grow_if_slow(self) -> None:
        """Grow if waiting tasks would take long at the pace so far."""
        now = time.monotonic()
        took = now - max(self._busy_since, self._grown_at)
        if took > GROWS_EVERY and self.unfinished * (now - self._busy_since) > self.done * LONG:
            self._grown_at = now
            self._grow()

    def abandon_overdue(self, timeout: float, now: float) -> None:
        with self._lock:
            self._grow()
        for worker in list(self._workers):
            call = worker.stack.overdue(timeout, now)
            if call is not None:
                self._abandon(worker, call)

    def _abandon(self, worker: Worker, call: Call) -> None:
        with self._lock:
            task = worker.task
            if task is None or not worker.stack.abandon(call):
                return
            self.unfinished -= 1
            self._threads -= 1
            if self.unfinished > self._threads:
                self._start()
        name = call.breaker.name if call.breaker else "Lakehand"
        why = f"{name}.{call.method} had not come back after {time.monotonic() - call.since:.0f} s"
        log.warning("a call was abandoned", extra={"pool": self.name, "reason": why})
        task.on_abandon(why)

    def close(self) -> None:
        """Drop the tasks that wait; the threads end after the ones they run."""
        with self._lock, suppress(Empty):
            while True:
                self.unfinished -= self._tasks.get_nowait() is not None
        for _ in range(self._threads):
            self._tasks.put(None)

    @property
    def has_room(self) -> bool:
        """Whether another task would start soon at the pace so far."""
        pace = self.done / max(time.monotonic() - self._busy_since, 1.0)
        return self.unfinished < max(LEAST_QUEUE, pace * SOON)


@dataclass(kw_only=True)
class WorkerPools:
    """The pools of one purpose, one for each name, made when they are needed."""

    purpose: str
    size: int
    timeout: float  # seconds for one call into a plugin
    rest: Callable[[float], None] = no_rest  # called between two tasks, with the processor seconds of the last one
    hanging: dict[object, str] = field(default_factory=dict)  # what abandoned tasks hang at, and why; kept by the loops
    _pools: dict[str, WorkerPool] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, name: str, run: Callable[[], None], on_abandon: Callable[[str], None]) -> None:
        self.submit_all(name, [Task(run, on_abandon)])

    def submit_all(self, name: str, tasks: Sequence[Task]) -> None:
        pool = self._pools.get(name)
        if pool is None:
            with self._lock:
                pool = self._pools.setdefault(name, WorkerPool(f"{self.purpose}:{name}", self.size, self.rest))
        pool.submit(tasks)

    def has_room(self, name: str) -> bool:
        pool = self._pools.get(name)
        return pool is None or pool.has_room

    def busy(self) -> frozenset[str]:
        """The pools that have unfinished tasks."""
        return frozenset(name for name, pool in list(self._pools.items()) if pool.unfinished)

    def abandon_overdue(self, now: float | None = None) -> None:
        """Called every second or so. ``now`` is a moment of the monotonic clock."""
        for pool in list(self._pools.values()):
            pool.abandon_overdue(self.timeout, time.monotonic() if now is None else now)

    def close(self, timeout: float = 10.0) -> None:
        """Let the threads end. Wait for tasks that run, but not for abandoned calls."""
        deadline = time.monotonic() + timeout
        for pool in self._pools.values():
            pool.close()
        while self.busy() and time.monotonic() < deadline:
            time.sleep(0.02)


def set_aside(why: str) -> str:
    """The reason that a table shows while an abandoned call hangs at it."""
    return f"set aside since {utc()}: {why}; it is tried again when that call has ended"
