# SPDX-License-Identifier: Apache-2.0
"""Reads numbers, lists and times out of what formats, requests and jobs wrote, whatever they are."""

from collections.abc import Mapping
from datetime import datetime, timezone

from lakehand.domain.processes import Json


def whole_number(value: Json) -> int:
    """0 for whatever is not a whole number."""
    return value if isinstance(value, int) else 0


def items(value: Json) -> list[Json]:
    """Empty for whatever is not a list."""
    return list(value) if isinstance(value, (list, tuple)) else []


def whole_numbers(value: Json) -> list[int]:
    return [item for item in items(value) if isinstance(item, int)]


def fields(value: Json) -> Mapping[str, Json]:
    """Empty for whatever is not an object."""
    return value if isinstance(value, Mapping) else {}


def milliseconds(moment: datetime) -> int:
    """Since 1970."""
    return int(moment.timestamp() * 1000)


def moment_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
