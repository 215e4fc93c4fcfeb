# SPDX-License-Identifier: Apache-2.0
"""Waiting for other threads of the same process: for a condition, with a deadline."""

import time
from collections.abc import Callable

from tests.kit.polling import wait_for

TIMEOUT = 30.0  # seconds; only a test that fails waits so long


def eventually(is_so: Callable[[], bool]) -> bool:
    """True, soon after the condition is; it raises when that does not happen."""
    return wait_for(is_so, "a condition of another thread", TIMEOUT, pace=0.005)


def a_while_later() -> float:
    """A moment of the monotonic clock at which every deadline has passed."""
    return time.monotonic() + 3600
