# SPDX-License-Identifier: Apache-2.0
"""A turn: what a loop gave to lanes at one time and waits for a moment, before it goes on without the slow ones."""

import threading


class Turn:
    """Counts what is out. The count may grow while something is out, never after all is back."""

    def __init__(self) -> None:
        self._out = 0
        self._lock = threading.Lock()
        self._all_back = threading.Event()
        self._all_back.set()
        self.moved = 0  # how many of those that are back have changed something

    def expect(self, count: int = 1) -> None:
        with self._lock:
            self._out += count
            if self._out:
                self._all_back.clear()

    def back(self, *, moved: bool = False) -> None:
        with self._lock:
            self._out -= 1
            self.moved += moved
            if self._out == 0:
                self._all_back.set()

    def wait(self, seconds: float) -> bool:
        """Whether all came back in that time."""
        return self._all_back.wait(seconds)


def expect(turn: Turn | None) -> None:
    """None: nobody waits."""
    if turn is not None:
        turn.expect()


def back(turn: Turn | None) -> None:
    if turn is not None:
        turn.back()
