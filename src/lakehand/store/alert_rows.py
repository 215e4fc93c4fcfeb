# SPDX-License-Identifier: Apache-2.0
"""Converts rows of alerts and of their messages."""

from datetime import datetime
from typing import Any

from sqlalchemy import Row

from lakehand.domain.alerts import (
    Alert,
    AlertId,
    AlertKind,
    AlertMessage,
    AlertRules,
    Cause,
    MessageId,
    MessageKind,
    Severity,
)
from lakehand.domain.operations import LeaseToken
from lakehand.store.clock import to_millis, to_time
from lakehand.store.documents import storable_text
from lakehand.store.events import shorten


def key_of(cause: Cause) -> str:
    return shorten(cause.key) or ""


def texts_of(cause: Cause) -> dict[str, Any]:
    """What may differ when it happens again."""
    return {
        "title": storable_text(cause.title), "message": storable_text(cause.message),
        "occurrence": cause.occurrence[:250], "operation_id": cause.operation,
    }  # fmt: skip


def new_row(cause: Cause, rules: AlertRules, *, token: str, now: datetime) -> dict[str, Any]:
    at = to_millis(now)
    return texts_of(cause) | {
        "cause_key": key_of(cause), "open_key": key_of(cause), "open_token": token, "instance": cause.instance,
        "kind": cause.kind.value, "severity": cause.severity.value, "owner": cause.owner, "queue": cause.queue,
        "format": cause.format, "tbl_id": cause.table, "times": 1, "open_time": at, "seen_time": at,
        "remind_time": to_millis(now + rules.reminder),
    }  # fmt: skip


def to_cause(row: Row[Any]) -> Cause:
    return Cause(
        key=row.cause_key, kind=AlertKind(row.kind), title=row.title, message=row.message, occurrence=row.occurrence,
        table=row.tbl_id, operation=row.operation_id, owner=row.owner, queue=row.queue, format=row.format,
        instance=row.instance,
    )  # fmt: skip


def to_alert(row: Row[Any]) -> Alert:
    return Alert(
        id=AlertId(row.alert_id), cause=to_cause(row), opened_at=to_time(row.open_time),
        last_seen=to_time(row.seen_time), resolved_at=to_time(row.resolve_time), count=row.times,
        silenced_until=to_time(row.silence_time), remind_at=to_time(row.remind_time),
    )  # fmt: skip


def to_message(row: Row[Any], alert: Alert | None) -> AlertMessage:
    severity = alert.cause.severity if alert else Severity(row.summary_key.rpartition(":")[2])
    return AlertMessage(
        id=MessageId(row.message_id), receiver=row.receiver, kind=MessageKind(row.kind), alert=alert, more=row.more,
        created_at=to_time(row.create_time), attempts=row.attempts, token=LeaseToken(row.lease_token),
        severity=severity,
    )  # fmt: skip


def summary_key(receiver: str, minute: int, severity: Severity) -> str:
    return f"{receiver}:{minute}:{severity}"
