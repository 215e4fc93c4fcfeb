# SPDX-License-Identifier: Apache-2.0
"""Waiting for something to become true: the only way in which a test may wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within: float = 120.0) -> T:
    """The condition's first true answer; a failure when there is none in time."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not true within {within} s"
        time.sleep(0.02)
