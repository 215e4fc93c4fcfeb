# SPDX-License-Identifier: Apache-2.0
"""Waiting for other threads: for a condition, with a deadline."""

import time
from collections.abc import Callable

TIMEOUT = 30.0  # seconds; only a test that fails waits so long


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.005)
    return is_so()


def a_while_later() -> float:
    """A moment of the monotonic clock at which every deadline has passed."""
    return time.monotonic() + 3600
