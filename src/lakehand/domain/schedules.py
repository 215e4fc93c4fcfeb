# SPDX-License-Identifier: Apache-2.0
"""Schedules: for each table and action, when it is evaluated next, and the result of the last evaluation."""

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.domain.actions import Action
from lakehand.domain.operations import LeaseToken, OperationId
from lakehand.domain.tables import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one action of one table is due, and the result of its last evaluation."""

    table: TableId
    action: Action
    due: datetime
    wakes: int = 0  # wake-ups since the last evaluation: notifications, changes, ended operations
    last_start: datetime | None = None  # when a process of it was last stored
    evaluated_at: datetime | None = None  # when it was last evaluated
    last_decision: datetime | None = None  # when its factory was last asked: the last reason is of what it saw then
    decide_at: datetime | None = None  # from then on its factory is asked again, changed or not
    seen_token: str | None = None  # the table's change token at the last decision
    last_reason: str = ""
    token: LeaseToken | None = None  # set while an instance evaluates it
    failed_operation: OperationId | None = None  # its last operation, if that failed for good


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result of evaluating one schedule."""

    schedule: Schedule
    next_due: datetime
    reason: str | None  # None: the last reason still holds
    decided_at: datetime | None = None  # when its factory was asked, before it read the table; or that failed
    started: bool = False  # a process was stored
    decide_at: datetime | None = None  # from then on its factory is asked again, changed or not
    saw: str | None = None  # the change token at this decision; None: no decision
    used_partitions: int | None = None  # the version of the named partitions that led to the process
    deferred: bool = False  # not evaluated for lack of time: its wake-ups still count


def spread(key: str, interval: timedelta, share: float = 0.1) -> timedelta:
    """A stable part of the interval for each key, so that tables registered together are not evaluated together."""
    return interval * share * (zlib.crc32(key.encode()) / 2**32)
