# SPDX-License-Identifier: Apache-2.0
"""Polling with a deadline: the only way in which a test waits."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TIMEOUT = 240.0  # seconds until a condition that never comes true fails the test


def wait_for(question: Callable[[], T | None], what: str, timeout: float = TIMEOUT, pace: float = 0.1) -> T:
    """Poll until there is an answer. The pause only saves processor time; nothing depends on its length."""
    deadline = time.monotonic() + timeout
    while True:
        if answer := question():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:.0f} s for {what}")
        time.sleep(pace)
