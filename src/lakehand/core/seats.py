# SPDX-License-Identifier: Apache-2.0
"""Which call into a plugin each thread is in. Whoever waits too long may leave it: its answer is then unwanted."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from lakehand.core.health import PluginHealth
from lakehand.domain.errors import LakehandError, PluginBroken

P = ParamSpec("P")
T = TypeVar("T")
ALLOWED = (OSError, LakehandError)  # what a plugin may raise about a table; anything else is its own fault


class CallLeft(BaseException):
    """Nobody waits for this thread any more. No plugin's ``except Exception`` may stop it on its way out."""


class Call:
    """One call into a plugin, or, with no plugin, back into our own code."""

    __slots__ = ("elsewhere", "is_left", "method", "outer", "plugin", "since", "table")

    def __init__(self, plugin: PluginHealth | None, method: str, outer: "Call | None", table: str = "") -> None:
        self.plugin = plugin
        self.method = method
        self.outer = outer
        self.table = table  # the location of the table that it is about, if it is about one
        self.since = time.monotonic()
        self.elsewhere = 0.0  # seconds of it that were spent in calls of others
        self.is_left = False


class Seat:
    """A thread that calls plugins."""

    __slots__ = ("call", "is_left", "lock", "thread")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.is_left = False
        self.lock = threading.Lock()
        self.thread = threading.get_ident()

    def leave(self, call: Call) -> bool:
        """Leave the call unless it is over. One that runs Python code, for instance for ever, is stopped."""
        with self.lock:
            if self.is_left or not self.is_in(call):
                return False
            self.is_left = call.is_left = True
            if self.call is not None and self.call.plugin is not None:
                raise_in(self.thread, CallLeft)
        if call.plugin is not None:
            call.plugin.has_hung(call, call.method, time.monotonic() - call.since, call.table)
        return True

    def is_in(self, call: Call) -> bool:
        current = self.call
        while current is not None and current is not call:
            current = current.outer
        return current is not None

    def overdue(self, patience: float, now: float) -> Call | None:
        """The call that is to blame: the innermost, or one around it that takes its time again and again."""
        inner = call = self.call
        if inner is None or inner.plugin is None:
            return None
        if now - inner.since > patience:
            return inner
        while call is not None:
            if call.plugin is not None and now - call.since > 2 * patience:
                return call
            call = call.outer
        return None


def raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Takes effect when the thread next runs Python code; one that sleeps in a system call sleeps on. None: not yet."""
    told = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), told)


_here = threading.local()


def here() -> Seat:
    seat: Seat | None = getattr(_here, "seat", None)
    if seat is None:
        seat = _here.seat = Seat()
    return seat


def called(
    plugin: PluginHealth, method: str, check: Callable[[Any], None], function: Callable[P, T], *args: P.args,
    **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """Call into a plugin and check its answer. What it does wrong is counted, and raised as an error of ours."""
    return called_about("", plugin, method, check, function, *args, **kwargs)


def called_about(
    table: str, plugin: PluginHealth, method: str, check: Callable[[Any], None], function: Callable[P, T],
    *args: P.args, **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """The same for a call about the table at a location: if it hangs, that table is set aside."""
    plugin.admit(method, table)
    seat = here()
    call = Call(plugin, method, seat.call, table)
    seat.call = call
    try:
        answer = function(*args, **kwargs)
    except CallLeft:
        end(seat, call, is_stopped=True)
        raise
    except ALLOWED:
        end(seat, call)
        raise
    except (Exception, SystemExit) as error:
        end(seat, call)
        if isinstance(error, SystemExit) and threading.current_thread() is threading.main_thread():
            raise  # someone ends this process
        plugin.failed(method, error)
        raise PluginBroken(f"{plugin.name}.{method} failed: {type(error).__name__}: {error}") from error
    end(seat, call)
    try:
        check(answer)
    except PluginBroken as error:
        plugin.failed(method, error)
        raise PluginBroken(f"{plugin.name}.{method} {error}") from None
    plugin.succeeded(method)
    return answer


def end(seat: Seat, call: Call, *, is_stopped: bool = False) -> None:
    """Raises where nobody waits for the answer any more."""
    assert call.plugin is not None
    try:
        with seat.lock:
            seat.call = call.outer
        seconds = time.monotonic() - call.since
        if call.outer is not None:
            call.outer.elsewhere += seconds
        if call.is_left:
            raise_in(seat.thread, None)
            raise CallLeft
        if not is_stopped:
            call.plugin.answered(call.method, seconds - call.elsewhere, call.table)
    except CallLeft:
        if call.is_left:
            call.plugin.came_back(call, is_stopped=is_stopped, table=call.table)
        raise


@contextmanager
def at_home() -> Iterator[None]:
    """Our own code, called by a plugin: it is not the plugin's time, and it is never stopped half-way."""
    seat = here()
    call = Call(None, "", seat.call)
    seat.call = call
    try:
        yield
    finally:
        with seat.lock:
            seat.call = call.outer
        if call.outer is not None:
            call.outer.elsewhere += time.monotonic() - call.since
