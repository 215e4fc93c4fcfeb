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
    wakes: int = 0  # hints that no look has answered yet: someone spoke of the table, or an operation of it ended
    last_start: datetime | None = None  # when a process of it was last stored
    last_look: datetime | None = None
    last_decision: datetime | None = None  # when its factory was last asked
    decide_at: datetime | None = None  # from then on its factory is asked again, changed or not
    seen_token: str | None = None  # the table's sign of change that its factory has seen
    last_reason: str = ""
    token: LeaseToken | None = None  # set while an instance looks at it


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The outcome of one look at a schedule."""

    schedule: Schedule
    next_due: datetime
    reason: str | None  # None: what was said last is still true
    decided: bool = False  # its factory was asked
    started: bool = False  # a process was stored
    decide_at: datetime | None = None  # from then on its factory is asked again, changed or not
    saw: str | None = None  # the sign of change that its factory was shown; None: none
    put_off: bool = False  # there was no time for it: nothing was seen, and every hint still waits


def spread(key: str, interval: timedelta, share: float = 0.1) -> timedelta:
    """A steady part of the interval for each key, so that tables registered together are not looked at together."""
    return interval * share * (zlib.crc32(key.encode()) / 2**32)
