# SPDX-License-Identifier: Apache-2.0
"""Schedules: when each action of each table is evaluated next, and the result of the last evaluation."""

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.domain.actions import Action
from lakehand.domain.operations import LeaseToken
from lakehand.domain.tables import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one action of one table is due, and the last reason."""

    table: TableId
    action: Action
    due: datetime
    wakes: int = 0  # hints that no evaluation has seen yet: a notification, or the end of an operation
    last_start: datetime | None = None  # when a process of it was last stored
    last_look: datetime | None = None
    last_decision: datetime | None = None  # when its factory last decided
    decide_at: datetime | None = None  # from then on its factory decides again, changed or not
    seen_token: str | None = None  # the change token that its factory has seen
    last_reason: str = ""
    token: LeaseToken | None = None  # set while an instance evaluates it


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one evaluation of a schedule."""

    schedule: Schedule
    next_due: datetime
    reason: str | None  # None: the last reason still holds
    decided: bool = False  # its factory decided
    started: bool = False  # a process was stored
    decide_at: datetime | None = None  # from then on its factory decides again, changed or not
    saw: str | None = None  # the change token that its factory saw
    put_off: bool = False  # deferred: nothing was evaluated, and every hint is kept


def spread(key: str, interval: timedelta, share: float = 0.1) -> timedelta:
    """A stable part of the interval for each key, so that tables registered together are not evaluated together."""
    return interval * share * (zlib.crc32(key.encode()) / 2**32)
