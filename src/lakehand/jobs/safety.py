# SPDX-License-Identifier: Apache-2.0
"""Why a job stops before it does harm: limits that no parameter lowers, the same in every format."""

import time
from typing import Any

MOST_SHARE = 0.3  # of all files that were seen
TOLERANCE = 600_000  # milliseconds by which the clocks of the service and of this machine may differ


class SafetyError(Exception):
    """The job does not do what its parameters say. Nothing was deleted."""


class BelowFloor(SafetyError):
    """The parameters ask for less than must be kept."""


class UnsafeRequest(SafetyError):
    """The parameters, or the table as it is found, do not allow the work."""


class ImplausibleShare(SafetyError):
    """So many files would go that the metadata is more likely wrong than the files."""


def refuse_implausible(found: int, total: int, *, is_confirmed: bool, what: str = "look like orphans") -> None:
    """Raise when too large a share of the files would be deleted, unless an operator has confirmed it."""
    if found > MOST_SHARE * total and not is_confirmed:
        raise ImplausibleShare(
            f"{found} of {total} files ({found / max(total, 1):.0%}) {what}; more than {MOST_SHARE:.0%} is not deleted "
            "unless an operator confirms it"
        )


def cut_off(asked: Any, least_hours: int) -> int:
    """The youngest time, in epoch milliseconds, that counts as old: never younger than the least age."""
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise UnsafeRequest(f"{asked!r} is no time: epoch milliseconds are needed")
    youngest = int(time.time() * 1000) - least_hours * 3_600_000
    if asked > youngest + TOLERANCE:
        raise BelowFloor(f"nothing younger than {least_hours} h is deleted, and {asked} asks for that")
    return min(asked, youngest)
