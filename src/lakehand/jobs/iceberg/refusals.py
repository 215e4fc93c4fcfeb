# SPDX-License-Identifier: Apache-2.0
"""What a job refuses to do, whoever asks: limits that no parameter lowers."""

import time
from typing import Any

TOLERANCE = 600_000  # milliseconds by which the clocks of the service and of this machine may differ


class Refused(Exception):
    """The job does not do what its parameters say."""


class Implausible(Refused):
    """More would be deleted than an honest mistake explains."""


def cut_off(asked: Any, least_hours: int) -> int:
    """The youngest time, in epoch milliseconds, that counts as old: never younger than the least age."""
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise Refused(f"{asked!r} is no time: epoch milliseconds are needed")
    youngest = int(time.time() * 1000) - least_hours * 3_600_000
    if asked > youngest + TOLERANCE:
        raise Refused(f"nothing younger than {least_hours} h is deleted, and {asked} asks for that")
    return min(asked, youngest)
