# SPDX-License-Identifier: Apache-2.0
"""What jobs of all formats refuse before they do harm, and how they report what they did not delete."""

import re
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

MOST_SHARE = 0.3  # of all files that were listed
TOLERANCE = 600_000  # milliseconds by which the clocks of the service and of this machine may differ
LEAST_ROW_HOURS = 168  # rows stay this long, whatever the parameters say
ZONE_HOURS = 12
WITH_ZONE = frozenset({"timestamptz", "timestamp with zone"})
DAY = 86_400_000  # milliseconds
MOST_ROWS = 0.5  # of a table: one of three months is a third
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


def refuse_implausible(
    parameters: dict[str, Any], found: int, total: int, *, what: str = "look like orphans", of: str = "files",
    most: float = MOST_SHARE,
) -> None:  # fmt: skip
    """Raise when too large a share of the files would be deleted, unless an operator has confirmed it."""
    if found > most * total and parameters.get("confirm") is not True:
        raise ImplausibleShare(
            f"{found} of {total} {of} ({found / max(total, 1):.0%}) {what}; more than {most:.0%} is not deleted "
            "unless an operator confirms it"
        )


def day_before(parameters: dict[str, Any], kind: str) -> datetime:
    """The day that the parameters name: rows before it may be deleted. Never younger than the least age.

    ``kind``: the column's type. A date or a time without a zone may be of the zone that is furthest behind.
    """
    least = LEAST_ROW_HOURS + (0 if kind in WITH_ZONE else ZONE_HOURS)
    oldest = cut_off(parameters.get("cutoff"), least)
    return datetime.fromtimestamp(oldest // DAY * DAY / 1000, timezone.utc)


def day_literal(kind: str, day: datetime) -> str:
    """The begin of a day as Spark SQL reads it, whatever the session's time zone."""
    text = f"{day:%Y-%m-%d}"
    if kind == "date":
        return f"DATE '{text}'"
    return f"TIMESTAMP '{text} 00:00:00Z'" if kind in WITH_ZONE else f"TIMESTAMP_NTZ '{text} 00:00:00'"


def would_expire(rows: int, newest: Any, files: Sequence[str], count: int, size: int | None = None) -> dict[str, Any]:
    """What a dry run of a deletion of rows reports: rows, the newest of them, and the files that have some."""
    return {
        "would_delete_rows": rows,
        "newest": None if newest is None else str(newest),
        **would_delete(files, count, size),
    }


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
