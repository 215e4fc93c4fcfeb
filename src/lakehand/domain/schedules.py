# SPDX-License-Identifier: Apache-2.0
"""Schedules: for each table and action, when it is looked at next and what the last look said."""

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.domain.actions import Action
from lakehand.domain.operations import LeaseToken
from lakehand.domain.tables import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one action of one table is due, and what was said about it last."""

    table: TableId
    action: Action
    due: datetime
    wakes: int = 0  # requests for a decision that no look has answered yet; 0: a look at an unchanged table is enough
    last_start: datetime | None = None  # when a process of it was last stored
    last_look: datetime | None = None
    last_reason: str = ""
    token: LeaseToken | None = None  # set while an instance looks at it


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The outcome of one look at a schedule."""

    schedule: Schedule
    next_due: datetime
    reason: str | None  # None: what was said last is still true
    started: bool = False  # a process was stored
    decide_next: bool = False  # the next look must decide again, changed or not


def spread(key: str, interval: timedelta, share: float = 0.1) -> timedelta:
    """A steady part of the interval for each key, so that tables registered together are not looked at together."""
    return interval * share * (zlib.crc32(key.encode()) / 2**32)
