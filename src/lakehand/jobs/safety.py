# SPDX-License-Identifier: Apache-2.0
"""What jobs of all formats refuse before they do harm, and how they report what they did not delete."""

import re
import time
from collections.abc import Sequence
from typing import Any

MOST_SHARE = 0.3  # of all files that were listed
TOLERANCE = 600_000  # milliseconds by which the clocks of the service and of this machine may differ
LISTED = 1000  # files by name in the report of a dry run
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,200}")


class SafetyError(Exception):
    """The job refuses its parameters. Nothing was deleted."""


class BelowFloor(SafetyError):
    """The parameters ask to keep less than must be kept."""


class UnsafeRequest(SafetyError, ValueError):
    """The parameters, or the table as it is found, do not allow the work."""


class ImplausibleShare(SafetyError):
    """So many files would go that the metadata is more likely wrong than the files."""


def refuse_implausible(parameters: dict[str, Any], found: int, total: int, *, what: str = "look like orphans") -> None:
    """Raise when too large a share of the files would be deleted, unless an operator has confirmed it."""
    if found > MOST_SHARE * total and parameters.get("confirm") is not True:
        raise ImplausibleShare(
            f"{found} of {total} files ({found / max(total, 1):.0%}) {what}; more than {MOST_SHARE:.0%} is not deleted "
            "unless an operator confirms it"
        )


def cut_off(asked: Any, least_hours: int) -> int:
    """The youngest time, in epoch milliseconds, that counts as old: never younger than the least age."""
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise UnsafeRequest(f"{asked!r} is not a time: epoch milliseconds are needed")
    youngest = int(time.time() * 1000) - least_hours * 3_600_000
    if asked > youngest + TOLERANCE:
        raise BelowFloor(f"nothing younger than {least_hours} h is deleted, and {asked} asks for that")
    return min(asked, youngest)


def whole_number(value: Any, what: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BelowFloor(f"{what} is {value!r}: a whole number of at least {least} is needed")
    return value


def operation_tag(parameters: dict[str, Any]) -> str:
    """What the job writes into the table's history, so that a later attempt finds that the work is done."""
    tag = parameters.get("operation_tag")
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise UnsafeRequest(
            f"the work has no operation tag ({tag!r}): without one, nobody could tell whether it was done"
        )
    return tag


def would_delete(paths: Sequence[str], count: int | None = None, size: int | None = None) -> dict[str, Any]:
    """What a dry run reports: the first files by name, how many there are, and their bytes if they are known."""
    found = {"would_delete": list(paths[:LISTED]), "would_delete_files": len(paths) if count is None else count}
    return found if size is None else {**found, "would_delete_bytes": size}


def left_outside(count: int, names: Sequence[str], why: str) -> dict[str, Any]:
    """What a result says about files that the metadata names and that are not the table's to delete."""
    return {"left_outside": count, "left_outside_files": list(names), "left_outside_why": why} if count else {}
